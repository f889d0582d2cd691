"""The PLL of each family: dividers from an oscillator and a wanted frequency, and a reset that waits for the lock.

::

    oscillator ─▶ ÷ input ─▶ phase detector ─▶ VCO ─┬─▶ ÷ output ─▶ clock
                                   ▲                │
                                   └── ÷ feedback ◀─┘  (on Gowin from behind the output divider)

Every setting within the family's limits is tried. The one nearest to the wanted frequency is taken; of equal ones
the one with the smallest input divider, as a fast phase detector means little jitter, and then the one whose VCO is
nearest to the middle of its range.
"""

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

_MEGA = 1_000_000


class Range(NamedTuple):
    """Frequencies in MHz, both ends included."""

    low: float
    high: float

    def holds(self, hertz: float) -> bool:
        """Whether a frequency in Hz is within."""
        return self.low * _MEGA <= hertz <= self.high * _MEGA

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
    """Name of the primitive."""
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
            raise ValueError(f"{cls.title} needs an oscillator of {cls.sources}, not of {source / _MEGA:g} MHz")
        if not cls.outputs.holds(wanted):
            raise ValueError(f"clock must be {cls.outputs} by {cls.title}, not {wanted / _MEGA:g} MHz")
        middle = (cls.vcos.low + cls.vcos.high) / 2 * _MEGA
        best = min(
            cls.settings(source, wanted),
            key=lambda setting: (abs(setting.output - wanted), setting.divide_in, abs(setting.vco - middle)),
            default=None,
        )
        if best is None or abs(best.output - wanted) > TOLERANCE * wanted:
            made = f"what {cls.title} makes of {source / _MEGA:g} MHz"
            nearest = f"; the nearest is {best.output / _MEGA:g} MHz" if best else ""
            raise ValueError(f"clock must be {made}, not {wanted / _MEGA:g} MHz{nearest}")
        return best

    @classmethod
    def settings(cls, source: int, wanted: int) -> Iterator[Setting]:
        """All settings within the limits that are next to the wanted frequency."""
        inputs, most, outputs = cls.factors
        for divide_in, divide_out in product(inputs, outputs):
            behind = divide_out if cls.behind else 1
            near = round(wanted * divide_in * (divide_out // behind) / source)
            for feedback in range(max(near - 1, 1), min(near + 1, most) + 1):
                yield from cls._legal(source, divide_in, feedback, divide_out, behind=behind)

    def elaborate(self, platform: object) -> Module:
        """The primitive behind its pin's buffer."""
        m = Module()
        m.submodules.buffer = buffer = io.Buffer("i", self.port)
        m.submodules.pll = self._primitive(buffer.i)
        return m

    def _primitive(self, oscillator: Any) -> Instance:
        raise NotImplementedError

    @classmethod
    def _legal(
        cls, source: int, divide_in: int, feedback: int, divide_out: int, *, behind: int = 1
    ) -> Iterator[Setting]:
        """The setting, if it is within the limits; ``behind``: divider between the VCO and the feedback divider."""
        detector = source / divide_in
        vco = detector * feedback * behind
        output = vco / divide_out
        if cls.detectors.holds(detector) and cls.vcos.holds(vco) and cls.outputs.holds(output):
            yield Setting(divide_in, feedback, divide_out, detector, vco, output)


class Ice40Pll(Pll):
    """SB_PLL40_PAD of iCE40, whose oscillator must be on the PLL's own pin.

    Limits: Lattice FPGA-DS-02008, FPGA-DS-02029 (sysCLOCK PLL timing); dividers: FPGA-TN-02052.
    """

    title = "SB_PLL40"
    sources = Range(10, 133)
    detectors = Range(10, 133)
    vcos = Range(533, 1066)
    outputs = Range(16, 275)
    factors = range(1, 17), 128, (2, 4, 8, 16, 32, 64)

    @property
    def filter_range(self) -> int:
        """The loop filter that suits the phase detector's frequency."""
        bounds = (17, 26, 44, 66, 101)
        return 1 + sum(self.setting.detector >= bound * _MEGA for bound in bounds)

    def elaborate(self, platform: object) -> Module:
        """The primitive, which is its pin's buffer, too."""
        m = Module()
        m.submodules.pll = Instance(
            "SB_PLL40_PAD",
            p_FEEDBACK_PATH="SIMPLE",
            p_DIVR=self.setting.divide_in - 1,
            p_DIVF=self.setting.feedback - 1,
            p_DIVQ=self.setting.divide_out.bit_length() - 1,
            p_FILTER_RANGE=self.filter_range,
            i_PACKAGEPIN=self.port.io,
            i_RESETB=1,
            i_BYPASS=0,
            o_PLLOUTGLOBAL=self.o,
            o_LOCK=self.o_locked,
        )
        return m


class Ecp5Pll(Pll):
    """EHXPLLL of ECP5. One output only feeds the phase detector, a second one is the clock.

    With one output for both, the clock would be a multiple of the phase detector's frequency, of at least 10 MHz.
    Limits: Lattice FPGA-DS-02012 (sysCLOCK PLL timing); dividers: FPGA-TN-02200.
    """

    title = "EHXPLLL"
    sources = Range(8, 400)
    detectors = Range(10, 400)
    vcos = Range(400, 800)
    outputs = Range(3.125, 400)
    factors = range(1, 129), 128, range(1, 129)

    def _primitive(self, oscillator: Any) -> Instance:
        setting, compared = self.setting, Signal(name="compared")
        return Instance(
            "EHXPLLL",
            # Loop filter and charge pump: what Lattice's tools write for any setting.
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            p_FEEDBK_PATH="CLKOP",
            p_CLKI_DIV=setting.divide_in,
            p_CLKFB_DIV=1,
            p_CLKOP_DIV=setting.feedback,
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_CPHASE=setting.feedback - 1,
            p_CLKOS_DIV=setting.divide_out,
            p_CLKOS_ENABLE="ENABLED",
            p_CLKOS_CPHASE=setting.divide_out - 1,
            p_OUTDIVIDER_MUXA="DIVA",
            p_OUTDIVIDER_MUXB="DIVB",
            i_CLKI=oscillator,
            i_CLKFB=compared,
            i_RST=0,
            i_STDBY=0,
            o_CLKOP=compared,
            o_CLKOS=self.o,
            o_LOCK=self.o_locked,
        )


class GowinPll(Pll):
    """rPLL of Gowin's GW1N and GW2A; its feedback comes from the output.

    Limits of GW1NR-9 at C6/I5: Gowin DS117; of GW2AR-18 at C8/I7: DS226; dividers: UG286.
    """

    title = "rPLL"
    behind = True
    outputs = Range(3.90625, 600)
    sources = Range(3, 400)
    detectors = Range(3, 400)
    vcos = Range(500, 1200)
    """Where the two devices differ, the range that both allow."""
    factors = range(1, 65), 64, (2, 4, 8, *range(16, 129, 16))

    def _primitive(self, oscillator: Any) -> Instance:
        return Instance(
            "rPLL",
            p_FCLKIN=f"{self.source / _MEGA:g}",
            p_IDIV_SEL=self.setting.divide_in - 1,
            p_FBDIV_SEL=self.setting.feedback - 1,
            p_ODIV_SEL=self.setting.divide_out,
            i_CLKIN=oscillator,
            i_CLKFB=0,
            i_RESET=0,
            i_RESET_P=0,
            o_CLKOUT=self.o,
            o_LOCK=self.o_locked,
        )


class GateMatePll(Pll):
    """CC_PLL of GateMate, in the mode for a core at 1.0 V.

    The primitive takes frequencies, and nextpnr chooses its dividers. The frequency chosen here is one that they can
    make without a divider of the input, which would add jitter: half the source times n by m, where m is even or 1.
    Limits: those of nextpnr in that mode, which follow Cologne Chip DS1001 and UG1001.
    """

    title = "CC_PLL"
    sources = Range(1, 50)
    detectors = Range(1, 50)
    vcos = Range(1000.001, 2000)
    """The lower end itself is refused."""
    outputs = Range(1, 312.5)
    second = 625
    """Highest MHz into the second of the two dividers of the feedback, which follow half the VCO."""

    @classmethod
    def settings(cls, source: int, wanted: int) -> Iterator[Setting]:
        """No divider of the input; after the VCO a division by two, and another by two for four phases."""
        highest = int(cls.vcos.high * _MEGA // (2 * source))
        for feedback in range(1, highest + 1):
            first = next((n for n in range(64, 0, -1) if feedback % n == 0), 1)
            if source * feedback > cls.second * _MEGA * first:
                continue  # it has no divisor that fits the first divider
            near = round(source * feedback / (2 * wanted))
            for divide in {1, near - near % 2, near + near % 2}:
                if divide > 0:
                    yield from cls._legal(source, 1, feedback, 4 * divide, behind=2)

    def _primitive(self, oscillator: Any) -> Instance:
        return Instance(
            "CC_PLL",
            p_REF_CLK=f"{self.source / _MEGA:.6f}",
            p_OUT_CLK=f"{self.setting.output / _MEGA:.6f}",
            p_PERF_MD="ECONOMY",
            p_LOCK_REQ=1,
            p_LOW_JITTER=1,
            # The loop filter's defaults, which nextpnr requires.
            p_CI_FILTER_CONST=2,
            p_CP_FILTER_CONST=4,
            i_CLK_REF=oscillator,
            i_CLK_FEEDBACK=0,
            i_USR_CLK_REF=0,
            i_USR_LOCKED_STDY_RST=0,
            o_CLK0=self.o,
            o_USR_PLL_LOCKED=self.o_locked,
        )


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
    """Accept a frequency in Hz."""
    domain = f"{noun} must be a positive integer of Hz, not {value!r}"
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(domain) from None
    if value < 1:
        raise ValueError(domain)
    return value
