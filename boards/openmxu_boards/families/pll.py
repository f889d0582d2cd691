"""The PLL of each family: dividers from an oscillator and a wanted frequency, and a reset that waits for the lock.

::

    oscillator ─▶ ÷ input ─▶ phase detector ─▶ VCO ─┬─▶ ÷ output ─▶ clock
                                   ▲                │
                                   └── ÷ feedback ◀─┘  (on Gowin from behind the output divider)

Every setting within the family's limits is tried. The one nearest to the wanted frequency is taken; of equal ones
the one with the smallest input divider, as a fast phase detector means little jitter, and then the one whose VCO is
nearest to the middle of its range.
"""

import math
import operator
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, ClassVar, NamedTuple

from amaranth.hdl import ClockDomain, ClockSignal, Instance, Module, ResetSignal, Signal
from amaranth.lib import io, wiring
from amaranth.lib.cdc import ResetSynchronizer
from amaranth.lib.wiring import Out

TOLERANCE = 0.02
"""Largest distance of a PLL's frequency from the wanted one, as a fraction of that."""

HOLD = 1024
"""Cycles from a PLL's lock to the end of the reset. Block memories of iCE40 read as zeros for some 3 µs after
configuration, which is 825 cycles of its fastest clock."""

MEGA = 1_000_000


class Range(NamedTuple):
    """Frequencies in MHz, both ends included."""

    low: float
    high: float

    def holds(self, hertz: float) -> bool:
        return self.low * MEGA <= hertz <= self.high * MEGA

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g} MHz"


class Setting(NamedTuple):
    """Dividers as factors (not as the numbers that a primitive takes), and the frequencies that follow, in Hz."""

    divide_in: int
    feedback: int
    divide_out: int
    detector: float
    vco: float
    output: float


class Pll(wiring.Component):
    """A PLL between an oscillator's pin and a clock.

    The output differs by at most :data:`TOLERANCE` from the wanted frequency. Where the source is the wanted frequency,
    no PLL is needed. ``o_locked`` is asynchronous to every clock.
    """

    title: ClassVar[str]
    factors: ClassVar[tuple[Sequence[int], int, Sequence[int]]]
    """What the input may be divided by, the most that the feedback may, and what the output may."""
    behind: ClassVar[bool] = False
    """Whether the feedback comes from behind the output's divider."""

    def __init__(self, port: Any, source: int, wanted: int) -> None:
        self.port = port
        self.source = source
        self.setting = self.choose(source, wanted)
        super().__init__({"o": Out(1), "o_locked": Out(1)})

    @property
    def frequency(self) -> int:
        """Frequency of the clock in Hz, to the nearest integer."""
        return round(self.setting.output)

    @classmethod
    def choose(cls, source: int, wanted: int) -> Setting:
        """The best setting for an oscillator and a clock in Hz; an error where the clock is too far from every one."""
        source, wanted = _check_frequency(source, "source"), _check_frequency(wanted, "clock")
        if not cls.sources.holds(source):
            raise ValueError(f"{cls.title} needs an oscillator of {cls.sources}, not of {source / MEGA:g} MHz")
        if not cls.outputs.holds(wanted):
            raise ValueError(f"clock must be {cls.outputs} by {cls.title}, not {wanted / MEGA:g} MHz")
        middle = (cls.vcos.low + cls.vcos.high) / 2 * MEGA
        best = min(
            cls.settings(source, wanted),
            key=lambda setting: (abs(setting.output - wanted), setting.divide_in, abs(setting.vco - middle)),
            default=None,
        )
        if best is None or abs(best.output - wanted) > TOLERANCE * wanted:
            made = f"what {cls.title} makes of {source / MEGA:g} MHz"
            nearest = f"; the nearest is {best.output / MEGA:g} MHz" if best else ""
            raise ValueError(f"clock must be {made}, not {wanted / MEGA:g} MHz{nearest}")
        return best

    @classmethod
    def made(cls, source: int, wanted: int) -> int:
        """The frequency nearest to the wanted one, in Hz: the oscillator's own, or what the PLL makes."""
        return source if source == wanted else round(cls.choose(source, wanted).output)

    @classmethod
    def slower(cls, source: int, hertz: float) -> float | None:
        """The highest clock up to ``hertz`` that can be made, in MHz, a multiple of 0.5; None if there is none."""
        for half in range(math.floor(hertz / 5e5), 1, -1):
            try:
                if cls.made(source, half * 500_000) <= hertz:
                    return half / 2
            except ValueError:
                continue
        return None

    @classmethod
    def settings(cls, source: int, wanted: int) -> Iterator[Setting]:
        """All settings within the limits that are next to the wanted frequency."""
        inputs, most, outputs = cls.factors
        for divide_in, divide_out in product(inputs, outputs):
            behind = divide_out if cls.behind else 1
            near = round(wanted * divide_in * (divide_out // behind) / source)
            for feedback in range(max(near - 1, 1), min(near + 1, most) + 1):
                yield from cls.legal(source, divide_in, feedback, divide_out, behind=behind)

    def elaborate(self, platform: object) -> Module:
        """The primitive behind its pin's buffer."""
        m = Module()
        m.submodules.buffer = buffer = io.Buffer("i", self.port)
        m.submodules.pll = self.primitive(buffer.i)
        return m

    def primitive(self, oscillator: Any) -> Instance:
        raise NotImplementedError

    @classmethod
    def legal(
        cls, source: int, divide_in: int, feedback: int, divide_out: int, *, behind: int = 1
    ) -> Iterator[Setting]:
        """The setting, if it is within the limits; ``behind``: divider between the VCO and the feedback divider."""
        detector = source / divide_in
        vco = detector * feedback * behind
        output = vco / divide_out
        if cls.detectors.holds(detector) and cls.vcos.holds(vco) and cls.outputs.holds(output):
            yield Setting(divide_in, feedback, divide_out, detector, vco, output)


def add_clock(m: Module, pll: Any) -> None:
    """Make a module's domain ``sync`` from a PLL's clock, in reset until :data:`HOLD` cycles after the PLL has locked.

    If the lock is lost, the reset comes back within two edges.
    """
    m.submodules.pll = pll
    m.domains.sync = ClockDomain("sync")
    m.domains.start = start = ClockDomain("start")
    unlocked = Signal()
    m.d.comb += [ClockSignal("sync").eq(pll.o), start.clk.eq(pll.o), unlocked.eq(~pll.o_locked)]
    m.submodules.reset = ResetSynchronizer(unlocked, domain="start")
    waited = Signal(range(HOLD))
    # A register of its own: the net to all registers takes most of a cycle, and leaves no time for a comparison.
    reset = Signal(init=1)
    m.d.start += waited.eq(waited + reset)
    with m.If(waited == HOLD - 1):
        m.d.start += reset.eq(0)
    m.d.comb += ResetSignal("sync").eq(reset)


def _check_frequency(value: int, noun: str) -> int:
    domain = f"{noun} must be a positive integer of Hz, not {value!r}"
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(domain) from None
    if value < 1:
        raise ValueError(domain)
    return value
