"""The catalog: names, parameters, and what is refused."""

import pytest
from amaranth.back import rtlil

from openmxu.catalog import CATALOG, build
from openmxu.export.verilog import to_rtlil
from openmxu.unit.block_element import BlockElement

from ..conftest import slow


def test_names_are_keys_and_unique() -> None:
    assert [design.name for design in CATALOG.values()] == list(CATALOG)
    assert len({(d.family, tuple(d.domain.items())) for d in CATALOG.values()}) == len(CATALOG)


def test_overrides_reach_the_component() -> None:
    unit = build("mxu", rows=3, columns=2, stages=2, subnormals="ieee", depth=8, source="bf16")
    config = unit.config
    assert (config.rows, config.columns, config.stages, config.subnormals) == (3, 2, 2, "ieee")
    assert (config.depth, config.source.name) == (8, "bf16")
    assert "module \\mxu" in to_rtlil(unit)


@pytest.mark.parametrize("block", ["int8", "mxfp8_e4m3", "nvfp4"])
def test_the_element_of_blocks_is_built_by_name(block: str) -> None:
    element = build("block_element", block=block, terms=2)
    assert to_rtlil(element) == to_rtlil(BlockElement(block, terms=2))


def test_cells() -> None:
    cells = {"adder": 0, "pe": 1, "array_4x4": 16, "mxu_8x8": 64, "mxu": 16384}
    assert {name: CATALOG[name].cells for name in cells} == cells


def test_message() -> None:
    with pytest.raises(ValueError, match=r"design must be one of product, .*, not 'mxu_3x3'"):
        build("mxu_3x3")


_QUICK = ("product", "adder", "adder_ieee", "pe", "pe_pipelined", "stream_adder")
_SMALL = [name for name, design in CATALOG.items() if design.cells <= 1]


@pytest.mark.parametrize("name", [*_QUICK, *(slow(name) for name in _SMALL if name not in _QUICK)])
def test_module_names_tell_designs_apart(name: str) -> None:
    component = build(name)
    assert f"module \\{component.module_name}\n" in rtlil.convert(component, name=component.module_name)
