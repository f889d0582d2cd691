"""The PLL of iCE40."""

from amaranth.hdl import Instance, Module

from openmxu_boards.families.pll import MEGA, Pll, Range


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
        return 1 + sum(self.setting.detector >= bound * MEGA for bound in bounds)

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
