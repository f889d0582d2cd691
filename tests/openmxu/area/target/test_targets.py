"""Targets: chosen by name, and what they count."""

import re
from dataclasses import replace
from typing import Any

import pytest

from openmxu.area import DEFAULT_TARGETS, RECIPES, TARGETS
from openmxu.area.target.targets import Area, UnmappedError, choose_targets
from openmxu.cells.liberty import generic_library


def counted(name: str, cells: dict[str, int], **more: Any) -> Area:
    """Of what Yosys says of a design with a module ``column`` in it."""
    [target] = choose_targets([name], [], ["area"])
    about = {"area": 13.5, "sequential_area": 12.0, "num_cells_by_type": cells, "num_memory_bits": 0, **more}
    return target.count({"modules": {"\\top": {}, "\\column": {}}, "design": about})


def test_targets() -> None:
    """Each name is one, and each library; recipes are for gates."""
    assert [target.name for target in choose_targets(list(TARGETS), [], ["area"])] == list(TARGETS)
    assert set(DEFAULT_TARGETS) < set(TARGETS)
    targets = choose_targets(["generic", "ecp5", "generic", "ecp5-dsp"], [], list(RECIPES))
    assert [target.label for target in targets] == ["generic", "generic (default)", "ecp5", "ecp5-dsp"]
    assert [target.counts_all for target in targets] == [True, True, True, False]
    library = replace(generic_library(), name="cells", timed=True)
    area, speed = choose_targets([], [library], ["area", "speed"])
    assert (area.name, area.unit, area.library) == ("cells", "GE", library)
    assert ("upsize" in area.script, "upsize" in speed.script) == (False, True)
    with pytest.raises(ValueError, match=r"^liberty must be libraries of different names, not a second 'cells'$"):
        choose_targets([], [library, library], ["area"])


RECIPE = "recipe must be one of area, default, sized, speed, not"
NONE = "at least one target or Liberty file and one recipe must be given, not none"
UNTIMED = "recipe must be area or default on libraries without timing, not"


@pytest.mark.parametrize(
    ("names", "recipes", "problem"),
    [
        (["asic"], ["area"], f"target must be one of {', '.join(TARGETS)}, not 'asic'"),
        (["generic"], ["fast"], f"{RECIPE} 'fast'"),
        (["generic"], ["sped"], f"{RECIPE} 'sped'"),
        ([], ["area"], NONE),
        (["generic"], [], NONE),
        (["generic"], ["speed"], f"{UNTIMED} speed"),
        (["generic"], ["sized", "speed"], f"{UNTIMED} sized or speed"),
    ],
)
def test_unknown_names(names: list[str], recipes: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        choose_targets(names, [], recipes)


def test_gates_are_counted_in_nands() -> None:
    """Neither memories nor instances of the design's own modules are cells."""
    area = counted("generic", {"XNOR2": 1, "DFF": 2, "INV": 1, "$scopeinfo": 3})
    cells = {"DFF": 2, "INV": 1, "XNOR2": 1}
    assert area == Area(13.5, 1.5, 12.0, 2, 0, cell_area=13.5, cells=cells)
    # Yosys has no latches in the sequential area.
    area = counted("generic", {"DFF": 1, "LATCH": 1, "DFFRN": 1}, area=16.5, sequential_area=13.0)
    assert (area.area, area.combinational, area.sequential, area.flip_flops) == (16.5, 0.0, 16.5, 3)
    memory = {"DFF": 2, "$memrd_v2": 2, "$memwr_v2": 1, "$meminit": 1, "column": 4}
    area = counted("generic", memory, num_memory_bits=512)
    assert (area.cells, area.flip_flops, area.memory_bits) == ({"DFF": 2}, 2, 512)
    with pytest.raises(UnmappedError, match=r"DFF, \$memrd_v2, \$memwr_v2, \$meminit$"):
        counted("ecp5", memory)
    transistors = {"num_memory_bits": 64, "estimated_num_transistors": "44+"}
    area = counted("cmos", {"$_NAND_": 3, "$_DFF_P_": 2, "$memrd_v2": 1}, **transistors)
    assert (area.area, area.flip_flops, area.memory_bits) == (44, 2, 64)


@pytest.mark.parametrize(
    ("name", "cells", "figures"),
    [
        ("ecp5", "10 LUT4, 3 CCU2C, 7 TRELLIS_FF", (16, 3, 7, 0, 0)),
        ("ice40", "10 SB_LUT4, 3 SB_CARRY, 4 SB_DFF, 3 SB_DFFESR", (10, 3, 7, 0, 0)),
        ("gowin", "3 LUT2, 10 LUT4, 4 ALU, 2 DFFRE, 1 DFF, 2 DLN, 1 SDPB, 1 GND", (17, 4, 5, 1, 0)),
        ("xilinx7", "10 LUT6, 1 LUT1, 1 INV, 3 CARRY4, 4 FDRE, 1 LDCE, 2 RAMB36E1", (12, 3, 5, 2, 0)),
        ("ecp5-dsp", "10 LUT4, 4 MULT18X18D, 1 DP16KD", (10, 0, 0, 1, 4)),
    ],
)
def test_luts_and_blocks_are_counted(name: str, cells: str, figures: tuple[int, ...]) -> None:
    """Area, carries, flip-flops, block RAMs, DSP blocks."""
    found = counted(name, {cell: int(number) for number, cell in map(str.split, cells.split(","))})
    assert (found.area, found.carries, found.flip_flops, found.block_rams, found.dsps) == figures


@pytest.mark.parametrize(
    ("name", "cell", "words"),
    [
        ("generic", "$_DLATCHSR_PPP_", " (latch)"),
        ("generic", "$_ALDFF_PP_", " (flip-flop with asynchronous load)"),
        ("ice40", "$_DFFSR_PPP_", " (flip-flop with asynchronous set and reset)"),
        ("gowin", "$_DFF_PN0_", " (flip-flop with asynchronous set or reset)"),
        *(("generic", "$mem_v2", ""), ("ecp5", "$memrd_v2", ""), ("ecp5", "MULT18X18D", "")),
        *(("xilinx7", "DSP48E1", ""), ("gowin", "MUX2_LUT5", "")),
    ],
)
def test_what_is_not_counted_is_a_failure(name: str, cell: str, words: str) -> None:
    problem = re.escape(f"cells that cannot be counted on this target: {cell}{words}")
    with pytest.raises(UnmappedError, match=f"^{problem}$"):
        counted(name, {cell: 1})
