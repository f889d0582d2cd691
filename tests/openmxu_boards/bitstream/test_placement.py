"""Parts of a design by the names of their cells, and the drawing of where they lie."""

import json
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest

from openmxu.export.verilog import to_rtlil
from openmxu_boards.bitstream.placement import OTHERS, Placement, described, part_of, read_placement
from openmxu_boards.bitstream.top import selftest
from openmxu_boards.devices.boards import find_board

UNIT = "design.soc.machine.unit"


@pytest.mark.parametrize(
    ("cell", "part", "signal"),
    [
        (f"{UNIT}.array.row_1.pe_0.adder.summed_SB_DFF_Q_3_D_SB_LUT4_O_LC", "row 1, column 0", "adder.summed"),
        (f"{UNIT}.array.row_10.pe_12.multiplied_SB_MAC16_O_DSP", "row 10, column 12", "multiplied"),
        (f"{UNIT}.bank.column_0.memory_DP16KD_DOA", "accumulators", "column_0.memory"),
        (f"{UNIT}.activation_edge.word_TRELLIS_FF_Q_1", "edges", "activation_edge.word"),
        (f"{UNIT}.weight_skew.lane_TRELLIS_FF_Q_1", "edges", "weight_skew.lane"),
        (f"{UNIT}.admission.place_LUT4_Z", "rest of the unit", "admission.place"),
        ("design.soc.machine.results.level_DFFE_Q", "buffers", "results.level"),
        ("design.soc.sender.crc_CC_DFF_Q", "protocol and UART", "sender.crc"),
        ("design.transmitter.left", "protocol and UART", "left"),
        ("pll.locked", OTHERS, "pll.locked"),
        ("$nextpnr_ICESTORM_LC_73", OTHERS, "$nextpnr"),
    ],
)
def test_part(cell: str, part: str, signal: str) -> None:
    assert part_of(cell) == (part, signal)
    assert not cell.startswith("$") or described(cell) == signal  # what has a part is in the reports on builds


@pytest.mark.parametrize(("design", "others"), [("system", {"buffers", "protocol and UART"}), ("selftest", {OTHERS})])
def test_modules_have_parts(design: str, others: set[str]) -> None:
    """The hardware's names of its modules are those that drawings go by."""
    board = find_board("icebreaker")
    make = board.system if design == "system" else selftest
    text = to_rtlil(make(board.config, 24_000_000), name="design")
    bodies = dict(re.findall(r"^module \\(\S+)\n(.*?)^end$", text, re.MULTILINE | re.DOTALL))
    parts = {part_of(f"{path}.signal_LUT4_Z")[0] for path in _paths(bodies, "design", "design")}
    elements = {f"row {row}, column {column}" for row in range(2) for column in range(2)}
    assert parts == elements | {"accumulators", "edges", "rest of the unit"} | others


def _paths(bodies: dict[str, str], module: str, path: str) -> Iterator[str]:
    """The paths of all instances below a module, which has a path itself."""
    for kind, name in re.findall(r"^  cell \\(\S+) \\(\S+)$", bodies[module], re.MULTILINE):
        if kind in bodies:
            yield f"{path}.{name}"
            yield from _paths(bodies, kind, f"{path}.{name}")


def test_read() -> None:
    """Tiles are called X1/Y2 or X1Y2; what lies nowhere does not count."""
    places = {
        "array.row_0.pe_0.a": "X3/Y4/lc0",
        "array.row_0.pe_0.b": "X3Y4/LUT1",
        "bank.c": "X3/Y4/lc2",
        "bank.d": "X0/Y11/lc0",
    }
    cells: Any = {f"{UNIT}.{name}_LUT4_Z": {"attributes": {"NEXTPNR_BEL": place}} for name, place in places.items()}
    nowhere = {f"{UNIT}.bank.e_LUT4_Z": {"attributes": {}}}
    placement = read_placement(json.dumps({"modules": {"top": {"cells": cells | nowhere}}}))
    assert placement.tiles == {(3, 4): {"row 0, column 0": 2, "accumulators": 1}, (0, 11): {"accumulators": 1}}
    assert placement.cells == {"row 0, column 0": 2, "accumulators": 2}
    with pytest.raises(RuntimeError, match=r"^nextpnr's netlist says of no cell where it lies$"):
        read_placement(json.dumps({"modules": {"top": {"cells": nowhere}}}))


@pytest.mark.parametrize(
    "text", ["", "[]", "[" * 10_000, '{"modules": {"top": {}}}', '{"modules": {"top": {"cells": [1]}}}']
)
def test_no_netlist(text: str) -> None:
    with pytest.raises(RuntimeError, match=r"^nextpnr's netlist cannot be read: \w+Error\("):
        read_placement(text)


def test_drawing() -> None:
    """The area of each colour is in proportion to the cells, and lies where they do."""
    tiles = {(0, 0): {"row 0, column 0": 4, OTHERS: 4}, (29, 9): {"accumulators": 2}}
    root = ElementTree.fromstring(Placement(tiles).to_svg("a <board>"))
    assert [each.text for each in root.findall(".//{*}title")] == ["a <board>"]
    texts = ["a <board>", "row 0, column 0: 4", "accumulators: 2", "others: 4"]
    assert [each.text for each in root.findall(".//{*}text")] == texts
    found = {each.get("fill"): each.get("d") for each in root.findall(".//{*}path")}
    row, accumulators, others = (each.get("fill") for each in root.findall(".//{*}g/{*}g/{*}rect"))
    # 480 units for 30 columns: a tile has 16, and eight cells fill it.
    bank = f"M{29 * 16} {9 * 16}h16v4h-16z"
    assert found == {others: "M0 0h16v8h-16z", row: "M0 8h16v8h-16z", accumulators: bank}


def test_every_element_has_its_colour() -> None:
    tiles = {(row, column): {f"row {row}, column {column}": 1} for row in range(10) for column in range(10)}
    svg = Placement(tiles).to_svg("10x10")
    assert len(set(re.findall(r'<path fill="([^"]*)"', svg))) == 100
    assert re.findall(r">(row [^<]*)<", svg) == [f"row {y}, column {x}: 1" for y in (0, 9) for x in (0, 9)]
