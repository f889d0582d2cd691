"""Lattice iCE40, whose bitstream is unpacked and read back, bit by bit."""

from collections.abc import Callable
from typing import Any, ClassVar

from amaranth.vendor import SiliconBluePlatform

from openmxu.runtime import process
from openmxu.yosys import yowasp
from openmxu_boards import tools
from openmxu_boards.families.circuit import Circuit
from openmxu_boards.families.family import Cells, Device, Family
from openmxu_boards.families.ice40.bitmap import read_bitmap
from openmxu_boards.families.ice40.chip import find_chip
from openmxu_boards.families.ice40.ice40_pll import Ice40Pll
from openmxu_boards.families.ice40.ice40_reader import read_circuit

_CELLS = Cells("ICESTORM_LC", "", "ICESTORM_DSP", "ICESTORM_RAM")
_ROUTER = ("nextpnr-ice40", "--up5k", "--package", "sg48", "--freq", "48", "--pcf-allow-unconstrained")


class Ice40(Family):
    """Lattice iCE40."""

    name = "iCE40"
    platform = SiliconBluePlatform
    pll = Ice40Pll
    bitstream = "bin"
    cells = _CELLS
    unpacks = True
    devices: ClassVar = {"up5k": Device("Lattice iCE40 UP5K", 5, "synth_ice40 -dsp -device u", _ROUTER, _CELLS)}

    def synthesis(self, platform: Any) -> str:
        if platform.device.startswith("iCE40UP"):
            return "-dsp -device u"
        return "-device lp" if platform.device.startswith("iCE40LP") else "-device hx"

    def read(self, content: bytes, platform: Any, clock: str, tell: Callable[[str], None]) -> Circuit:
        bitmap = read_bitmap(unpack(content, tell))
        return read_circuit(find_chip(bitmap.device), bitmap, platform.package.lower(), clock)


def unpack(bitstream: bytes, tell: Callable[[str], None]) -> str:
    """A bitstream as text, by iceunpack."""
    tools.check(["iceunpack"])
    with process.workspace() as work:
        (work / "bits.bin").write_bytes(bitstream)
        yowasp.run("iceunpack", ["bits.bin", "bits.asc"], work, tell)
        return (work / "bits.asc").read_text()
