"""What goes with an exported module: read by the tools that it is for."""

import re
import sys
from importlib.metadata import EntryPoints, version
from pathlib import Path

import pytest

from openmxu.catalog import build
from openmxu.export import bench
from openmxu.export.bench import find_bench
from openmxu.export.integration import to_template
from openmxu.export.verilog import to_verilog
from openmxu.unit.axi import IDENTITY, Register

from ...conftest import Command, ran, slow
from ...linters import lint
from .conftest import cells, lint_text

MXU = "mxu --rows 2 --columns 3 --splitter --result bf16"


@pytest.mark.parametrize("arguments", [slow(f"{MXU} --status"), slow(f"{MXU} --bus axi"), "adder"])
def test_files(arguments: str, tmp_path: Path, command: Command) -> None:
    """Exported, instantiated from the template, and clean; and FuseSoC finds the core."""
    assert command(f"verilog {arguments} --name it -o it.v --template instance.v --core it.core")[0] == 0
    design, template = ((tmp_path / name).read_text() for name in ("it.v", "instance.v"))
    lint(tmp_path / "it.v", "it")
    # Wires that nothing drives or reads are what a template is for.
    off, on = (f"/* verilator lint_{s} UNDRIVEN */ /* verilator lint_{s} UNUSEDSIGNAL */\n" for s in ("off", "on"))
    lint_text(f"{off}module around;\n{template}endmodule\n{on}{design}", "around", tmp_path)
    said = re.findall(r"^(?:Name: +)?(openmxu::it:\S+|default|lint)", _fusesoc(tmp_path, "core show openmxu::it"), re.M)
    assert said == [f"openmxu::it:{version('openmxu')}", "default", "lint"]
    assert "deprecated" not in _fusesoc(tmp_path, "run --setup --target lint it")
    [written] = tmp_path.rglob("*.vc")
    assert {"--lint-only", "-Wall", "--top-module it"} < {*written.read_text().splitlines()}


def _fusesoc(where: Path, words: str) -> str:
    done = ran([Path(sys.executable).with_name("fusesoc"), "--cores-root", ".", *words.split()], cwd=where)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_fields_stand_in_the_template() -> None:
    unit = build("mxu_2x2", splitter=True)
    text = to_template(unit, to_verilog(unit), name="mxu")
    assert (
        "wire [72:0] activations__payload;  // input: [63:0] data, 2 words, the first lowest; [64] first; "
        "[65] last; [66] add; [67] clear_nan; [68] emit; [69] keep; [72:70] part"
    ) in text


@pytest.mark.slow
def test_a_unit_on_a_bus_for_ecp5() -> None:
    """Yosys maps all of it, memories included; what is left are cells of the device."""
    unit = build("mxu_2x2", bus="axi", rows=1, columns=1, depth=32)
    found = cells(to_verilog(unit), "synth_ecp5 -top mxu_axi\ncheck -assert")
    assert min(found[cell] for cell in ("TRELLIS_FF", "LUT4")) > 500
    assert [cell for cell in found if cell.startswith("$")] == ["$scopeinfo"]  # names of modules, no logic


def test_registers_are_where_the_documentation_has_them() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "axi.md").read_text()
    found = re.findall(r"^\| 0x(\w\w) \| `(\w+)` \| (.*) \|$", page, re.MULTILINE)
    assert {name: int(address, 16) for address, name, _ in found} == {each.name: each.value for each in Register}
    assert f"0x{IDENTITY:08X}" in found[0][2]


# Benches, as far as the package of the hardware knows of them

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
