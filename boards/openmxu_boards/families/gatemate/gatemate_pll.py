"""The PLL of GateMate."""

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Instance

from openmxu_boards.families.pll import MEGA, Pll, Range, Setting


class GateMatePll(Pll):
    """CC_PLL of GateMate, in the mode for a core at 1.0 V.

    The primitive takes frequencies, and nextpnr chooses its dividers. The frequency chosen here is one that they can
    make without a divider of the input, which would add jitter: half the source times n by m, where m is even or 1.
    Limits: nextpnr's in that mode, which follow Cologne Chip DS1001 and UG1001.
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
        highest = int(cls.vcos.high * MEGA // (2 * source))
        for feedback in range(1, highest + 1):
            first = next((n for n in range(64, 0, -1) if feedback % n == 0), 1)
            if source * feedback > cls.second * MEGA * first:
                continue  # it has no divisor that fits the first divider
            near = round(source * feedback / (2 * wanted))
            for divide in {1, near - near % 2, near + near % 2}:
                if divide > 0:
                    yield from cls.legal(source, 1, feedback, 4 * divide, behind=2)

    def primitive(self, oscillator: Any) -> Instance:
        return Instance(
            "CC_PLL",
            p_REF_CLK=f"{self.source / MEGA:.6f}",
            p_OUT_CLK=f"{self.setting.output / MEGA:.6f}",
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
