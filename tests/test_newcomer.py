"""What `.ci/run` rests on: a shell without optional programs, and a second run of what the first one skipped."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent

_TESTS = {
    "test_few": """
import os, pytest
@pytest.mark.skipif("THERE" not in os.environ, reason="it is not installed")
def test_what_needs_it(): pass
def test_plain(): pass
""",
    "test_whole": """
import os, pytest
if "THERE" not in os.environ:
    pytest.skip("it is not installed", allow_module_level=True)
def test_what_needs_it(): pass
""",
}


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="this is no Debian")
def test_a_newcomer_has_nothing_optional(tmp_path: Path) -> None:
    ask = "echo $HOME; ls -A $HOME; for name in $NAMES; do command -v $name >/dev/null && echo $name; done; python3 -V"
    there = ["bash", "git", "make", "cc", "c++", "ls", "sed"]
    optional = ["iverilog", "verilator", "ghdl", "sta", "chromium", "yosys", "nextpnr-ecp5", "graywolf", "node"]
    done = subprocess.run(
        [_ROOT / ".ci/newcomer", "sh", "-c", ask],
        env=os.environ | {"NAMES": " ".join([*optional, *there])},
        capture_output=True,
        text=True,
        check=True,
    )
    home, *lines = done.stdout.splitlines()
    assert lines[:-1] == ["bin", *there]
    assert lines[-1].startswith("Python 3.")
    assert not Path(home).exists()
    subprocess.run([_ROOT / ".ci/newcomer", "python3", "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    assert (tmp_path / "venv/bin/python").exists(), "it outlives the newcomer's home"


def test_a_second_run_has_what_the_first_one_skipped(tmp_path: Path) -> None:
    """Single tests and whole modules; also with several workers."""
    for name, text in _TESTS.items():
        (tmp_path / f"{name}.py").write_text(text)
    listed = tmp_path / "skipped"

    def run(*options: str, **variables: str) -> str:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-n", "2", *options, str(tmp_path)]
        done = subprocess.run(
            command, cwd=_ROOT, env=os.environ | variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    assert "1 passed, 2 skipped" in run(f"--list-skipped={listed}")
    assert len(listed.read_text().splitlines()) == 2
    assert "2 passed in" in run(f"--only-listed={listed}", THERE="yes")
