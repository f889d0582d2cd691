"""Benches beside exported units, as far as the hardware's package knows of them: requests, names, refusals."""

import re
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from openmxu.catalog import CATALOG
from openmxu.export import bench
from openmxu.export.bench import find_bench

from ..conftest import Command, Refused

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


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("vhdl -o unit", "bench must be one of cocotb, verilog, not 'vhdl'"),
        ("verilog", "bench needs a folder for its files, which -o names"),
        (
            "verilog -o unit --core unit/mxu.core",
            "bench writes a core file and an instance itself: leave out --core and --template",
        ),
        ("verilog -o unit --name a$b", "name must be without $ where files of a bench are called after it, not 'a$b'"),
        ("verilog -o file", "output must be a directory that can be written, not 'file': File exists"),
        ("verilog -o unit --rows 0", "rows must be an integer from 1 to 65536, not 0"),
    ],
)
def test_mistakes(arguments: str, complaint: str, refused: Refused) -> None:
    refused(f"{_UNIT} --bench {arguments}", complaint)


def test_other_designs_have_none(refused: Refused) -> None:
    units = ", ".join(name for name, design in CATALOG.items() if design.family == "mxu")
    refused("adder --bench verilog -o unit", f"bench applies only to a unit ({units}), not to adder")


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
