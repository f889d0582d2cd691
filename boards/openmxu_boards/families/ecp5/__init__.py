"""Lattice ECP5, of which the netlist after routing is read back."""

from typing import Any, ClassVar

from amaranth.vendor import LatticePlatform

from openmxu_boards.families.ecp5.ecp5_pll import Ecp5Pll
from openmxu_boards.families.ecp5.ecp5_reader import read_circuit
from openmxu_boards.families.family import Cells, Device, Family

_CELLS = Cells("TRELLIS_COMB", "TRELLIS_FF", "MULT18X18D", "DP16KD")


def _device(size: str) -> Device:
    router = ("nextpnr-ecp5", f"--{size}k", "--package", "CABGA381", "--speed", "6", "--freq", "200")
    # With wide multiplexers no single number gives the size of a design.
    title, synthesis = f"Lattice ECP5 LFE5U-{size}F, speed grade 6", "synth_ecp5 -nowidelut"
    return Device(title, 5, synthesis, (*router, "--lpf-allow-unconstrained"), _CELLS)


class Ecp5(Family):
    """Lattice ECP5."""

    name = "ECP5"
    platform = LatticePlatform
    pll = Ecp5Pll
    bitstream = "bit"
    cells = _CELLS
    options = "-nowidelut"
    # Wires are most of the longest paths of large arrays; with the usual weight of 10, their lengths depend on chance.
    placement = "--placer-heap-timingweight 50"
    read_netlist = staticmethod(read_circuit)
    devices: ClassVar = {f"ecp5-{size}f": _device(size) for size in ("25", "85")}

    def covers(self, platform: Any) -> bool:
        """Other families of Lattice have the same class."""
        return super().covers(platform) and platform.family == "ecp5"
