"""What goes with an exported module: read by the tools that it is for."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from openmxu import yosys
from openmxu.catalog import build
from openmxu.export.integration import to_template
from openmxu.export.verilog import to_verilog
from openmxu.unit.axi import IDENTITY, Register

from ...conftest import slow
from ...linters import lint
from ..conftest import Command

MXU = "mxu --rows 2 --columns 3 --splitter --result bf16"


@pytest.mark.parametrize("arguments", [slow(f"{MXU} --status"), slow(f"{MXU} --bus axi"), "adder"])
def test_files(arguments: str, tmp_path: Path, command: Command) -> None:
    """Exported, instantiated from the template, and clean; and FuseSoC finds the core."""
    assert command(f"verilog {arguments} --name it -o it.v --template instance.v --core it.core")[0] == 0
    design, template = tmp_path / "it.v", tmp_path / "instance.v"
    around = tmp_path / "around.v"
    # Wires that nothing drives or reads are what a template is for.
    off, on = (f"/* verilator lint_{s} UNDRIVEN */ /* verilator lint_{s} UNUSEDSIGNAL */\n" for s in ("off", "on"))
    around.write_text(f"{off}module around;\n{template.read_text()}endmodule\n{on}{design.read_text()}")
    lint(design, "it")
    lint(around, "around")
    said = re.findall(r"^(?:Name: +)?(openmxu::it:\S+|default|lint)", _fusesoc(tmp_path, "core show openmxu::it"), re.M)
    assert said == [f"openmxu::it:{version('openmxu')}", "default", "lint"]
    assert "deprecated" not in _fusesoc(tmp_path, "run --setup --target lint it")
    [written] = tmp_path.rglob("*.vc")
    assert {"--lint-only", "-Wall", "--top-module it"} < {*written.read_text().splitlines()}


def _fusesoc(where: Path, words: str) -> str:
    command = [str(Path(sys.executable).with_name("fusesoc")), "--cores-root", ".", *words.split()]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
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
    yosys.prepare()
    unit = build("mxu_2x2", bus="axi", rows=1, columns=1, depth=32)
    script = "read_verilog /job/design.il\nsynth_ecp5 -top mxu_axi\ncheck -assert\ntee -q -o /job/result stat -json"
    cells = json.loads(yosys.produce(script, to_verilog(unit)))["design"]["num_cells_by_type"]
    assert min(cells.get(cell, 0) for cell in ("TRELLIS_FF", "LUT4")) > 500
    assert [cell for cell in cells if cell.startswith("$")] == ["$scopeinfo"]  # names of modules, no logic


def test_registers_are_where_the_documentation_has_them() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "axi.md").read_text()
    found = re.findall(r"^\| 0x(\w\w) \| `(\w+)` \| (.*) \|$", page, re.MULTILINE)
    assert {name: int(address, 16) for address, name, _ in found} == {each.name: each.value for each in Register}
    assert f"0x{IDENTITY:08X}" in found[0][2]
