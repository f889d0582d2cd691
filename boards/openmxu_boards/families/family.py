"""A family of devices: options of the tools, the PLL, and the way from a build back to a circuit."""

import sys
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, ClassVar, NamedTuple

from openmxu_boards.families.circuit import Circuit
from openmxu_boards.families.pll import Pll


class Cells(NamedTuple):
    """nextpnr's names of a family's cells; a cell with LUT and flip-flop is the former."""

    logic: str
    flip_flops: str
    multipliers: str
    memories: str


class Device(NamedTuple):
    """A device on which any design is placed and routed between registers.

    More stages than those that suit it cost flip-flops and latency, and buy less than a seventh of the clock; the
    explanation of the processing element has the figures.
    """

    title: str
    stages: int
    synthesis: str
    router: tuple[str, ...]
    """The command of Yosys that synthesizes, and the call of nextpnr."""
    cells: Cells


class Family:
    """A family of devices; each is the face of a folder with all that it needs."""

    name: ClassVar[str]
    platform: ClassVar[type[Any]]
    pll: ClassVar[type[Pll]]
    bitstream: ClassVar[str]
    cells: ClassVar[Cells]
    unpacks: ClassVar[bool] = False
    """Whether the bitstream itself is read back; else the netlist after routing is, and stays beside it."""
    options: ClassVar[str] = ""
    placement: ClassVar[str] = ""
    """Options of Yosys's command, and of nextpnr."""
    read_netlist: ClassVar["staticmethod[[str, str], Circuit]"]
    devices: ClassVar[Mapping[str, Device]] = {}

    def covers(self, platform: Any) -> bool:
        return isinstance(platform, self.platform)

    def synthesis(self, platform: Any) -> str:
        """Options of Yosys's command."""
        return self.options

    def with_tools(self, platform: type[Any]) -> type[Any]:
        """A class of platforms for the present tools."""
        return platform

    def read(self, content: bytes, platform: Any, clock: str, tell: Callable[[str], None]) -> Circuit:
        """The circuit in a bitstream or in a netlist after routing, clocked by a pin."""
        return type(self).read_netlist(content.decode(), clock)

    def models(self) -> dict[str, str]:
        """The models of cells in Verilog, by names of files."""
        folder = files(sys.modules[type(self).__module__])
        return {file.name: file.read_text() for file in folder.iterdir() if file.name.endswith(".v")}
