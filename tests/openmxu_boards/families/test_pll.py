"""PLLs: their dividers against all that the data sheets allow, counted out another way, and the reset."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal
from amaranth.lib import io
from amaranth.lib.wiring import Out
from amaranth.sim import Simulator

from openmxu_boards.families.ecp5.ecp5_pll import Ecp5Pll
from openmxu_boards.families.gatemate.gatemate_pll import GateMatePll
from openmxu_boards.families.gowin.gowin_pll import GowinPll
from openmxu_boards.families.ice40.ice40_pll import Ice40Pll
from openmxu_boards.families.pll import HOLD, TOLERANCE, Pll, add_clock

from ...conftest import slow
from ..testbenches import Held

MHZ = 10**6


def ice40(source: int) -> set[Fraction]:
    """FPGA-DS-02008: detector 10 to 133 MHz, VCO 533 to 1066, output 16 to 275; DIVR, DIVF, DIVQ of 4, 7, 3 bits."""
    made = set()
    for detector, divf in product((Fraction(source, divr + 1) for divr in range(16)), range(128)):
        if 10 <= detector / MHZ <= 133 and 533 <= detector * (divf + 1) / MHZ <= 1066:
            made |= {detector * (divf + 1) / 2**divq for divq in range(1, 7)}
    return {clock for clock in made if 16 <= clock / MHZ <= 275}


def ecp5(source: int) -> set[Fraction]:
    """FPGA-DS-02012: detector 10 to 400 MHz, VCO 400 to 800, both outputs 3.125 to 400; dividers 1 to 128."""
    made = set()
    for detector, clkop in product((Fraction(source, clki) for clki in range(1, 129)), range(1, 129)):
        if 10 <= detector / MHZ <= 400 and 400 <= detector * clkop / MHZ <= 800:
            made |= {detector * clkop / clkos for clkos in range(1, 129)}
    return {clock for clock in made if Fraction(25, 8) <= clock / MHZ <= 400}


def gowin(source: int) -> set[Fraction]:
    """DS117 and DS226, what both allow: detector 3 to 400 MHz, VCO 500 to 1200, output 3.90625 to 600."""
    detectors = [Fraction(source, idiv + 1) for idiv in range(64) if 3 <= Fraction(source, idiv + 1) / MHZ <= 400]
    made = {detector * (fbdiv + 1) for detector, fbdiv in product(detectors, range(64))}
    made = {each for each in made if any(500 <= each * odiv / MHZ <= 1200 for odiv in (2, 4, 8, *range(16, 129, 16)))}
    return {clock for clock in made if Fraction(125, 32) <= clock / MHZ <= 600}


def gatemate(source: int) -> set[Fraction]:
    """What nextpnr searches in mode "economy" with one divider of the input: N1, N2, M1, M2, and its limits."""
    made = set()
    for n1, n2 in product(range(1, 65), range(1, 1025)):
        half = source * n1 * n2  # the DCO behind its divider by two
        if not 1000 * MHZ < 2 * half <= 2000 * MHZ or half / n1 > 625 * MHZ:
            continue
        made |= {Fraction(half, 2 * m) for m in (1, *range(2, 2 * half // MHZ + 1, 2))}
    return {clock for clock in made if 1 <= clock / MHZ <= Fraction(625, 2)}


FAMILIES = [
    (Ice40Pll, ice40, (12, 16, 100)),
    (Ecp5Pll, ecp5, (25, 48, 100)),
    (GowinPll, gowin, (24, 27, 50)),
    (GateMatePll, gatemate, (10, 25)),
]


@pytest.mark.parametrize(
    ("pll", "reference", "source"),
    [
        (pytest.param if source == sources[0] else slow)(pll, reference, source * MHZ)
        for pll, reference, sources in FAMILIES
        for source in sources
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_dividers(pll: type[Pll], reference: Any, source: int) -> None:
    """For each wanted frequency the nearest that there is; an error where that is too far away."""
    made = reference(source)
    grid = np.array([float(clock) for clock in made])
    refused = 0
    for wanted in range(MHZ, 420 * MHZ, 3 * MHZ if pll is Ecp5Pll else MHZ):
        away = np.abs(grid - wanted).min() if len(grid) else np.inf
        if away > TOLERANCE * wanted or not pll.outputs.holds(wanted):
            refused += 1
            with pytest.raises(ValueError, match=r"^clock must be "):
                pll.choose(source, wanted)
        else:
            found = pll.choose(source, wanted)
            exact = Fraction(source, found.divide_in) * found.feedback / found.divide_out
            exact *= {GowinPll: found.divide_out, GateMatePll: 2}.get(pll, 1)
            assert exact in made
            assert float(exact) == pytest.approx(found.output, rel=1e-12)
            assert abs(found.output - wanted) == pytest.approx(away, abs=1e-3), f"{wanted} Hz: {found}"
    assert refused


def test_reset_lasts_until_the_lock_and_longer() -> None:
    pll, m = Held({"o": Out(1), "o_locked": Out(1)}), Module()
    add_clock(m, pll)
    count = Signal(8)
    m.d.sync += count.eq(count + 1)

    async def testbench(ctx: Any) -> None:
        async def edges(number: int) -> None:
            for _ in range(number):
                for level in (1, 0):
                    ctx.set(pll.o, level)
                    await ctx.delay(1e-6)

        for _ in range(2):
            await edges(HOLD + 10)
            assert ctx.get(count) == 0
            ctx.set(pll.o_locked, 1)
            await edges(HOLD)
            assert ctx.get(count) == 0
            await edges(10)
            assert 6 <= ctx.get(count) <= 9
            ctx.set(pll.o_locked, 0)
            await edges(3)
            assert ctx.get(count) == 0, "a lost lock resets"

    simulator = Simulator(m)
    simulator.add_testbench(testbench)
    simulator.run()


@pytest.mark.parametrize(
    ("pll", "source", "wanted", "numbers"),
    [
        (Ice40Pll, 12, 24, ["DIVR 0", "DIVF 63", "DIVQ 5", "FILTER_RANGE 1"]),  # those of Project IceStorm's icepll
        (Ecp5Pll, 25, 60, ["CLKI_DIV 1", "CLKOP_DIV 24", "CLKOS_DIV 10"]),
        (GowinPll, 27, 81, ["IDIV_SEL 0", "FBDIV_SEL 2", 'FCLKIN "27"']),
        (GateMatePll, 10, 25, ['REF_CLK "10.000000"', 'OUT_CLK "25.000000"']),
    ],
)
def test_primitives(pll: type[Pll], source: int, wanted: int, numbers: list[str]) -> None:
    port = io.SingleEndedPort(io.IOPort(1, name="pin"), direction="i") if pll is Ice40Pll else io.SimulationPort("i", 1)
    made = pll(port, source * MHZ, wanted * MHZ)
    assert made.frequency == wanted * MHZ
    text = rtlil.convert(made, ports=[made.o, made.o_locked], emit_src=False)
    for number in numbers:
        assert rf"parameter \{number}" in text, text
