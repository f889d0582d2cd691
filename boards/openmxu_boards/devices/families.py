"""Families of devices: platforms, options of the tools, and PLLs."""

from collections.abc import Callable
from typing import Any, NamedTuple

from amaranth.vendor import GowinPlatform, LatticePlatform, SiliconBluePlatform

from openmxu_boards.devices.clocks import Ecp5Pll, GateMatePll, GowinPll, Ice40Pll, Pll
from openmxu_boards.devices.vendors import GateMatePlatform, Himbaechel


class Family(NamedTuple):
    """A family of devices."""

    name: str
    """Name of the family."""
    platform: type[Any]
    """Class of its platforms."""
    pll: type[Pll]
    """The PLL between oscillator and clock."""
    bitstream: str
    """Extension of the file that is loaded."""
    synthesis: Callable[[Any], str]
    """Options of Yosys's command for a platform."""
    replayed: str
    """The file of a build that is simulated: ``"bitstream"``, or ``"netlist"`` for the netlist after routing."""
    placement: str = ""
    """Options of nextpnr."""


def _synthesis_ice40(platform: Any) -> str:
    if platform.device.startswith("iCE40UP"):
        return "-dsp -device u"
    return "-device lp" if platform.device.startswith("iCE40LP") else "-device hx"


FAMILIES = (
    Family("iCE40", SiliconBluePlatform, Ice40Pll, "bin", _synthesis_ice40, "bitstream"),
    # Wires are most of the longest paths of large arrays; with the usual weight of 10, their lengths depend on chance.
    Family("ECP5", LatticePlatform, Ecp5Pll, "bit", lambda _: "-nowidelut", "netlist", "--placer-heap-timingweight 50"),
    # apycula cannot pack all of Yosys's DSP blocks. Wide multiplexers take more LUTs than they save.
    Family("Gowin", GowinPlatform, GowinPll, "fs", lambda _: "-nodsp -nowidelut", "netlist"),
    Family("GateMate", GateMatePlatform, GateMatePll, "bit", lambda _: "-luttree -nomx8", "netlist"),
)
"""All families that bitstreams are built for."""


def family_of(platform: Any) -> Family:
    """The family of a platform's device."""
    for family in FAMILIES:
        # Other families of Lattice have the same class.
        if isinstance(platform, family.platform) and (family.name != "ECP5" or platform.family == "ecp5"):
            return family
    names = ", ".join(family.name for family in FAMILIES)
    raise ValueError(f"platform must be for one of {names}, not {type(platform).__name__}")


def with_tools(platform: Any) -> Any:
    """A class of platforms for the present tools: for Gowin's, one that calls nextpnr by its present name."""
    if isinstance(platform, type) and issubclass(platform, GowinPlatform):
        return type(platform.__name__, (Himbaechel, platform), {})
    return platform
