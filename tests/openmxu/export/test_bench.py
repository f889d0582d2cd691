"""Benches beside exported units, as far as the hardware's package knows of them: requests, names, refusals."""

import re
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from openmxu.export import bench
from openmxu.export.bench import find_bench

from ..conftest import Command

_UNIT = "mxu --rows 1 --columns 1 --depth 2"


@pytest.mark.parametrize(("kind", "first"), [("verilog", "mxu_tb.v"), ("cocotb", "test_mxu.py")])
def test_the_files_are_there(kind: str, first: str, tmp_path: Path, command: Command) -> None:
    where = tmp_path / "new" / "folder"
    code, _, notes = command(f"verilog {_UNIT} --bench {kind} -o {where}")
    assert code == 0
    assert notes.endswith(f" to {where}; make -C {where} runs the bench\n")
    names = [first, "weights.hex", "activations.hex", "results.hex", "Makefile", "mxu.core"]
    assert find_bench(kind).names("mxu") == names
    texts = {path.name: path.read_text() for path in where.iterdir()}
    assert sorted(texts) == sorted(["mxu.v", *names])
    assert f"openmxu verilog mxu --rows 1 --columns 1 --depth 2 --bench {kind} -o DIR" in texts[first]
    # Nothing of this machine is in them, and no place was left unfilled.
    assert not any(str(tmp_path) in text or re.search("@[A-Z]+@", text) for text in texts.values())


def test_files_are_called_after_the_unit(tmp_path: Path, command: Command) -> None:
    """Which is the same as without a bench."""
    for output in ("--bench verilog -o .", "-o alone.v"):
        assert command(f"verilog {_UNIT} --bus axi {output}")[0] == 0
    assert (tmp_path / "mxu_axi.core").is_file()
    assert (tmp_path / "alone.v").read_text() == (tmp_path / "mxu_axi.v").read_text()


def test_without_the_package_that_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "entry_points", lambda **_: EntryPoints())
    with pytest.raises(OSError, match="benches are written by openmxu_sim, which is not installed"):
        find_bench("verilog")
