"""Targets: chosen by name, and what they count."""

import re
from dataclasses import replace
from typing import Any

import pytest

from openmxu.area import DEFAULT_TARGETS, RECIPES, TARGETS
from openmxu.area.target.liberty import generic_library
from openmxu.area.target.targets import UnmappedError, choose_targets


def statistics(cells: dict[str, int], *, memory_bits: int = 0) -> dict[str, Any]:
    """What Yosys says of a design with a module ``column`` in it."""
    design = {"area": 13.5, "sequential_area": 12.0, "num_cells_by_type": cells, "num_memory_bits": memory_bits}
    return {"modules": {"\\top": {}, "\\column": {}}, "design": design}


def test_targets() -> None:
    """Each name is one, and each library; recipes are for gates."""
    assert [target.name for target in choose_targets(list(TARGETS), [], ["area"])] == list(TARGETS)
    assert set(DEFAULT_TARGETS) < set(TARGETS)
    targets = choose_targets(["generic", "ecp5", "generic"], [], list(RECIPES))
    assert [target.label for target in targets] == ["generic", "generic (default)", "ecp5"]
    library = replace(generic_library(), name="cells", timed=True)
    area, speed = choose_targets([], [library], ["area", "speed"])
    assert (area.name, area.unit, area.library) == ("cells", "GE", library)
    assert ("upsize" in area.script, "upsize" in speed.script) == (False, True)
    with pytest.raises(ValueError, match=r"^liberty must be libraries of different names, not a second 'cells'$"):
        choose_targets([], [library, library], ["area"])


@pytest.mark.parametrize(
    ("names", "recipes", "problem"),
    [
        (["asic"], ["area"], f"target must be one of {', '.join(TARGETS)}, not 'asic'"),
        (["generic"], ["fast"], "recipe must be one of area, default, sized, speed, not 'fast'"),
        (["generic"], ["sped"], "recipe must be one of area, default, sized, speed, not 'sped'; did you mean speed?"),
        ([], ["area"], "at least one target or Liberty file and one recipe must be given, not none"),
        (["generic"], [], "at least one target or Liberty file and one recipe must be given, not none"),
        (["generic"], ["speed"], "recipe must be area or default on libraries without timing, not speed"),
        (
            ["generic"],
            ["sized", "speed"],
            "recipe must be area or default on libraries without timing, not sized or speed",
        ),
    ],
)
def test_unknown_names(names: list[str], recipes: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        choose_targets(names, [], recipes)


def test_gates_are_counted_in_nands() -> None:
    (target,) = choose_targets(["generic"], [], ["area"])
    area = target.count(statistics({"XNOR2": 1, "DFF": 2, "INV": 1, "$scopeinfo": 3}))
    assert (area.area, area.combinational, area.sequential, area.cell_area) == (13.5, 1.5, 12.0, 13.5)
    assert (area.flip_flops, area.memory_bits) == (2, 0)
    assert area.cells == {"DFF": 2, "INV": 1, "XNOR2": 1}
    netlist = statistics({"DFF": 1, "LATCH": 1, "DFFRN": 1})
    netlist["design"].update(area=16.5, sequential_area=13.0)  # Yosys has no latches in the second
    area = target.count(netlist)
    assert (area.area, area.combinational, area.sequential, area.flip_flops) == (16.5, 0.0, 16.5, 3)


def test_memories_are_counted_in_bits_on_gates() -> None:
    """Neither they nor instances of the design's own modules are cells."""
    target, ecp5 = choose_targets(["generic", "ecp5"], [], ["area"])
    netlist = statistics({"DFF": 2, "$memrd_v2": 2, "$memwr_v2": 1, "$meminit": 1, "column": 4}, memory_bits=512)
    area = target.count(netlist)
    assert (area.cells, area.flip_flops, area.memory_bits) == ({"DFF": 2}, 2, 512)
    with pytest.raises(UnmappedError, match=r"DFF, \$memrd_v2, \$memwr_v2, \$meminit$"):
        ecp5.count(netlist)


def test_luts_are_counted() -> None:
    ecp5, ice40 = choose_targets(["ecp5", "ice40"], [], ["area"])
    area = ecp5.count(statistics({"LUT4": 10, "CCU2C": 3, "TRELLIS_FF": 7}))
    assert (area.area, area.carries, area.flip_flops) == (16, 3, 7)
    area = ice40.count(statistics({"SB_LUT4": 10, "SB_CARRY": 3, "SB_DFF": 4, "SB_DFFESR": 3}))
    assert (area.area, area.carries, area.flip_flops) == (10, 3, 7)


def test_blocks_are_counted() -> None:
    gowin, xilinx, dsp = choose_targets(["gowin", "xilinx7", "ecp5-dsp"], [], ["area"])
    area = gowin.count(
        statistics({"LUT2": 3, "LUT4": 10, "ALU": 4, "DFFRE": 2, "DFF": 1, "DLN": 2, "SDPB": 1, "GND": 1})
    )
    assert (area.area, area.carries, area.flip_flops, area.block_rams) == (17, 4, 5, 1)
    area = xilinx.count(statistics({"LUT6": 10, "LUT1": 1, "INV": 1, "CARRY4": 3, "FDRE": 4, "LDCE": 1, "RAMB36E1": 2}))
    assert (area.area, area.carries, area.flip_flops, area.block_rams, area.dsps) == (12, 3, 5, 2, 0)
    area = dsp.count(statistics({"LUT4": 10, "MULT18X18D": 4, "DP16KD": 1}))
    assert (area.area, area.dsps, area.block_rams) == (10, 4, 1)
    assert (gowin.counts_all, dsp.counts_all) == (True, False)


def test_transistors_are_counted() -> None:
    (cmos,) = choose_targets(["cmos"], [], ["area"])
    netlist = statistics({"$_NAND_": 3, "$_DFF_P_": 2, "$memrd_v2": 1}, memory_bits=64)
    netlist["design"]["estimated_num_transistors"] = "44+"
    area = cmos.count(netlist)
    assert (area.area, area.flip_flops, area.memory_bits) == (44, 2, 64)


@pytest.mark.parametrize(
    ("name", "cell", "words"),
    [
        ("generic", "$_DLATCHSR_PPP_", " (latch)"),
        ("generic", "$_ALDFF_PP_", " (flip-flop with asynchronous load)"),
        ("ice40", "$_DFFSR_PPP_", " (flip-flop with asynchronous set and reset)"),
        ("gowin", "$_DFF_PN0_", " (flip-flop with asynchronous set or reset)"),
        ("generic", "$mem_v2", ""),
        ("ecp5", "$memrd_v2", ""),
        ("ecp5", "MULT18X18D", ""),
        ("xilinx7", "DSP48E1", ""),
        ("gowin", "MUX2_LUT5", ""),
    ],
)
def test_what_is_not_counted_is_a_failure(name: str, cell: str, words: str) -> None:
    (target,) = choose_targets([name], [], ["area"])
    problem = re.escape(f"cells that cannot be counted on this target: {cell}{words}")
    with pytest.raises(UnmappedError, match=f"^{problem}$"):
        target.count(statistics({cell: 1}))
