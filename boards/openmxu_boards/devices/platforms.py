"""Platforms of boards that amaranth-boards does not have, or has without a UART."""

from typing import Any, ClassVar

from amaranth.build import Attrs, Clock, Pins, PinsN, Resource
from amaranth.vendor import GowinPlatform, LatticeECP5Platform
from amaranth_boards.orangecrab_r0_2 import OrangeCrabR0_2_25FPlatform
from amaranth_boards.resources import LEDResources, UARTResource

from openmxu_boards.families.gatemate.gatemate_platform import GateMatePlatform


class ColorlightI5Platform(LatticeECP5Platform):
    """The Colorlight i5 module, versions 6.0 and 7.0, on Muse Lab's extension board.

    Clock and light: the README of github.com/wuxx/Colorlight-FPGA-Projects. UART, to the extension board's USB: the
    schematic there, as read by litex-boards' platform colorlight_i5.
    """

    device = "LFE5U-25F"
    package = "BG381"
    speed = "6"
    default_clk = "clk25"
    resources: ClassVar[list[Any]] = [
        Resource("clk25", 0, Pins("P3", dir="i"), Clock(25e6), Attrs(IO_TYPE="LVCMOS33")),
        *LEDResources(pins="U16", invert=True, attrs=Attrs(IO_TYPE="LVCMOS33")),
        UARTResource(0, rx="H18", tx="J17", attrs=Attrs(IO_TYPE="LVCMOS33")),
    ]
    connectors: ClassVar[list[Any]] = []


class OrangeCrabPlatform(OrangeCrabR0_2_25FPlatform):
    """OrangeCrab r0.2 with a UART on the pins that a Feather has it on: 0 receives, 1 sends.

    The board has no converter to USB: these need a cable with one, at 3.3 V. Pins: amaranth-boards' connector ``io``.
    """

    resources: ClassVar[list[Any]] = [
        *OrangeCrabR0_2_25FPlatform.resources,
        UARTResource(0, rx="0", tx="1", conn=("io", 0), attrs=Attrs(IO_TYPE="LVCMOS33")),
    ]


class TangNano20kPlatform(GowinPlatform):
    """Sipeed's Tang Nano 20K.

    Pins: the board's page at wiki.sipeed.com, and litex-boards' platform sipeed_tang_nano_20k, which agree. The UART
    goes to the converter beside the USB socket.
    """

    part = "GW2AR-LV18QN88C8/I7"
    family = "GW2AR-18C"
    default_clk = "clk27"
    resources: ClassVar[list[Any]] = [
        Resource("clk27", 0, Pins("4", dir="i"), Clock(27e6), Attrs(IO_TYPE="LVCMOS33")),
        *LEDResources(pins="15 16 17 18 19 20", invert=True, attrs=Attrs(IO_TYPE="LVCMOS33")),
        UARTResource(0, rx="70", tx="69", attrs=Attrs(IO_TYPE="LVCMOS33", PULL_MODE="UP")),
    ]
    connectors: ClassVar[list[Any]] = []


class GateMateA1EvbPlatform(GateMatePlatform):
    """Olimex's GateMateA1-EVB.

    Clock, light and button: Olimex's constraints in github.com/OLIMEX/GateMateA1-EVB, which litex-boards' platform
    olimex_gatemate_a1_evb and NEORV32's set-up for the board agree with. UART, to the RP2040 that is the programmer,
    too: litex-boards; the names in the schematic are those of the RP2040's side, as issue 11 of
    github.com/chili-chips-ba/openCologne found on the board.
    """

    device = "CCGM1A1"
    default_clk = "clk10"
    resources: ClassVar[list[Any]] = [
        Resource("clk10", 0, Pins("IO_SB_A8", dir="i"), Clock(10e6), Attrs(SCHMITT_TRIGGER="true")),
        Resource("led", 0, PinsN("IO_SB_B6", dir="o")),
        UARTResource(0, rx="IO_SA_A6", tx="IO_SA_B6"),
    ]
    connectors: ClassVar[list[Any]] = []
