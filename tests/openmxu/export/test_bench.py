"""Benches beside exported units, as far as the hardware's package knows of them: requests, names, refusals."""

import re
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest

from openmxu.cli import frame
from openmxu.export import bench
from openmxu.export.bench import find_bench

_UNIT = ["verilog", "mxu", "--rows", "1", "--columns", "1", "--depth", "2"]


def test_each_kind_names_its_files() -> None:
    common = ["weights.hex", "activations.hex", "results.hex", "Makefile", "it.core"]
    assert find_bench("verilog").names("it") == ["it_tb.v", *common]
    assert find_bench("cocotb").names("it") == ["test_it.py", *common]


@pytest.mark.parametrize("kind", ["verilog", "cocotb"])
def test_the_files_are_there(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tmp_path / "new" / "folder"
    assert frame.main([*_UNIT, "--bench", kind, "-o", str(where)]) == 0
    assert sorted(path.name for path in where.iterdir()) == sorted(["mxu.v", *find_bench(kind).names("mxu")])
    command = f"openmxu verilog mxu --rows 1 --columns 1 --depth 2 --bench {kind} -o DIR"
    assert command in (where / find_bench(kind).names("mxu")[0]).read_text()
    assert capsys.readouterr().err.endswith(f" to {where}; make -C {where} runs the bench\n")
    # Nothing of this machine is in them, and no place was left unfilled.
    texts = [path.read_text() for path in where.iterdir()]
    assert not any(str(tmp_path) in text or re.search("@[A-Z]+@", text) for text in texts)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--bench", "vhdl", "-o", "unit"], "bench must be one of cocotb, verilog, not 'vhdl'"),
        (["--bench", "verilog"], "bench needs a folder for its files, which -o names"),
        (
            ["--bench", "verilog", "-o", "unit", "--core", "unit/mxu.core"],
            "bench writes a core file and an instance itself: leave out --core and --template",
        ),
        (
            ["--bench", "verilog", "-o", "unit", "--name", "a$b"],
            "name must be without $ where files of a bench are called after it, not 'a$b'",
        ),
        (["--bench", "verilog", "-o", "file"], "output must be a directory that can be written, not 'file'"),
        (["--bench", "verilog", "-o", "unit", "--rows", "0"], "rows must be an integer from 1 to 65536, not 0"),
    ],
)
def test_mistakes(
    arguments: list[str],
    complaint: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    assert frame.main([*_UNIT, *arguments]) == 2
    assert complaint in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_are_called_after_the_unit(tmp_path: Path) -> None:
    """Which is the same as without a bench."""
    unit = [*_UNIT, "--bus", "axi"]
    assert frame.main([*unit, "--bench", "verilog", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "mxu_axi.core").is_file()
    assert frame.main([*unit, "-o", str(tmp_path / "alone.v")]) == 0
    assert (tmp_path / "alone.v").read_text() == (tmp_path / "mxu_axi.v").read_text()


def test_other_designs_have_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert frame.main(["verilog", "adder", "--bench", "verilog", "-o", str(tmp_path / "unit")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("openmxu verilog: bench applies only to a unit (mxu_2x2, ")
    assert said.endswith(", mxu), not to adder\n")
    assert not list(tmp_path.iterdir())


def test_without_the_package_that_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "entry_points", lambda **_: EntryPoints())
    with pytest.raises(OSError, match="benches are written by openmxu_sim, which is not installed"):
        find_bench("verilog")
