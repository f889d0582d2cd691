"""The PLL of Gowin."""

from typing import Any

from amaranth.hdl import Instance

from openmxu_boards.families.pll import MEGA, Pll, Range


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

    def primitive(self, oscillator: Any) -> Instance:
        return Instance(
            "rPLL",
            p_FCLKIN=f"{self.source / MEGA:g}",
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
