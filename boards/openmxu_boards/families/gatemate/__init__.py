"""Cologne Chip's GateMate, of which the netlist after routing is read back."""

from openmxu_boards.families.family import Cells, Family
from openmxu_boards.families.gatemate.gatemate_platform import GateMatePlatform
from openmxu_boards.families.gatemate.gatemate_pll import GateMatePll
from openmxu_boards.families.gatemate.gatemate_reader import read_circuit


class GateMate(Family):
    """Cologne Chip's GateMate."""

    name = "GateMate"
    platform = GateMatePlatform
    pll = GateMatePll
    bitstream = "bit"
    cells = Cells("CPE_LT", "CPE_FF", "CPE_MULT", "RAM_HALF")
    options = "-luttree -nomx8"
    read_netlist = staticmethod(read_circuit)
