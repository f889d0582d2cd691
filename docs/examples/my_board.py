"""A board of one's own for `openmxu board`: its device, its clock, its lights and its UART."""

from amaranth.build import Attrs, Clock, Pins, Resource
from amaranth.vendor import LatticeECP5Platform
from amaranth_boards.resources import LEDResources, UARTResource

PINS_AT_3V3 = Attrs(IO_TYPE="LVCMOS33")


class MyPlatform(LatticeECP5Platform):
    """An ECP5 with 24,000 LUTs, an oscillator of 25 MHz, three lights that are low where they shine, and a UART."""

    device = "LFE5U-25F"
    package = "BG381"
    speed = "6"
    default_clk = "clk"
    resources = (
        Resource("clk", 0, Pins("G2", dir="i"), Clock(25e6), PINS_AT_3V3),
        *LEDResources(pins="B2 C2 C1", invert=True, attrs=PINS_AT_3V3),
        UARTResource(0, rx="M1", tx="L4", attrs=PINS_AT_3V3),
    )
    connectors = ()
