"""The commands of the hardware: what their exit codes say."""

from pathlib import Path

import pytest

from openmxu.cli import main
from openmxu.yosys import wasm


@pytest.mark.parametrize(("timeout", "code"), [("600", 0), ("0.01", 1)])
def test_area_says_by_its_exit_code_whether_all_was_measured(timeout: str, code: int, tmp_path: Path,
                                                             monkeypatch: pytest.MonkeyPatch,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(wasm.folder()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # where nothing is kept
    assert main(["area", "-o", str(tmp_path / "out"), "--width", "1", "--part", "product", "--target", "generic",
                 "--timeout", timeout]) == code
    assert ("failed: significand product" in capsys.readouterr().out) == bool(code)
    assert (tmp_path / "out" / "report.html").is_file()
