"""Gowin GW1N and GW2A, of which the netlist after routing is read back."""

from typing import Any

from amaranth.vendor import GowinPlatform

from openmxu_boards.families.family import Cells, Family
from openmxu_boards.families.gowin.gowin_platform import Himbaechel
from openmxu_boards.families.gowin.gowin_pll import GowinPll
from openmxu_boards.families.gowin.gowin_reader import read_circuit


class Gowin(Family):
    """Gowin GW1N and GW2A."""

    name = "Gowin"
    platform = GowinPlatform
    pll = GowinPll
    bitstream = "fs"
    cells = Cells("LUT4", "DFF", "", "BSRAM")
    # apycula cannot pack all of Yosys's DSP blocks. Wide multiplexers take more LUTs than they save.
    options = "-nodsp -nowidelut"
    read_netlist = staticmethod(read_circuit)

    def with_tools(self, platform: type[Any]) -> type[Any]:
        """Amaranth's calls a nextpnr that no longer exists."""
        return type(platform.__name__, (Himbaechel, platform), {})
