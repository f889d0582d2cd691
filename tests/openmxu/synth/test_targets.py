"""Targets: chosen by name, and what they count."""

import re
from pathlib import Path
from typing import Any

import pytest

from openmxu.synth import RECIPES, TARGETS
from openmxu.synth.liberty import generic_library
from openmxu.synth.targets import UnmappedError, choose_targets


def statistics(cells: dict[str, int], *, memory_bits: int = 0) -> dict[str, Any]:
    """What Yosys says of a design with a module ``column`` in it."""
    design = {"area": 13.5, "sequential_area": 12.0, "num_cells_by_type": cells, "num_memory_bits": memory_bits}
    return {"modules": {"\\top": {}, "\\column": {}}, "design": design}


def test_each_name_is_a_target() -> None:
    assert [target.name for target in choose_targets(list(TARGETS), [], ["area"])] == list(TARGETS)


def test_recipes_are_for_gates() -> None:
    targets = choose_targets(["generic", "ecp5", "generic"], [], list(RECIPES))
    assert [target.label for target in targets] == ["generic", "generic (default)", "ecp5"]


def test_libraries_are_targets(tmp_path: Path) -> None:
    path = tmp_path / "cells.lib"
    path.write_bytes(generic_library().text)
    target, = choose_targets([], [path], ["area"])
    assert (target.name, target.unit) == ("openmxu_generic", "GE")
    assert "-liberty /lib/openmxu_generic.lib" in target.script
    problem = "liberty must be libraries of different names, not a second 'openmxu_generic'"
    with pytest.raises(ValueError, match=f"^{problem}$"):
        choose_targets([], [path, path], ["area"])


@pytest.mark.parametrize(("names", "recipes", "problem"), [
    (["asic"], ["area"], "target must be one of generic, ecp5, ice40, not 'asic'"),
    (["generic"], ["fast"], "recipe must be one of area, default, not 'fast'"),
    ([], ["area"], "at least one target or Liberty file and one recipe must be given, not none"),
    (["generic"], [], "at least one target or Liberty file and one recipe must be given, not none"),
])
def test_unknown_names(names: list[str], recipes: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        choose_targets(names, [], recipes)


def test_gates_are_counted_in_nands() -> None:
    target, = choose_targets(["generic"], [], ["area"])
    area = target.count(statistics({"XNOR2": 1, "DFF": 2, "INV": 1, "$scopeinfo": 3}))
    assert (area.area, area.combinational, area.sequential, area.cell_area) == (13.5, 1.5, 12.0, 13.5)
    assert (area.flip_flops, area.memory_bits) == (2, 0)
    assert area.cells == {"DFF": 2, "INV": 1, "XNOR2": 1}


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


@pytest.mark.parametrize(("name", "cell"), [
    ("generic", "$_DLATCH_P_"), ("generic", "$mem_v2"), ("ecp5", "$memrd_v2"),
    ("ecp5", "MULT18X18D"), ("ice40", "SB_RAM40_4K"),
])
def test_what_is_not_counted_is_a_failure(name: str, cell: str) -> None:
    target, = choose_targets([name], [], ["area"])
    with pytest.raises(UnmappedError, match=f"^cells that cannot be counted on this target: {re.escape(cell)}$"):
        target.count(statistics({cell: 1}))
