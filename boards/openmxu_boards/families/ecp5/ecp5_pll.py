"""The PLL of ECP5."""

from typing import Any

from amaranth.hdl import Instance, Signal

from openmxu_boards.families.pll import Pll, Range


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

    def primitive(self, oscillator: Any) -> Instance:
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
