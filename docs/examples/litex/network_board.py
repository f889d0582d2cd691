"""A network on the SoC of a board with its DRAM as main memory: a bitstream, or the SoC in Verilator.

VexRiscv ──── bus ──┬── ROM: LiteX's BIOS, which prepares the DRAM and goes on in the next
                    ├── ROM: firmware and a network
                    ├── UART, registers of the accelerator
                    └── port ──┐
accelerator ── AXI4 ─── port ──┴── LiteDRAM ── SDRAM of a ULX3S, or DDR3 of an OrangeCrab
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from litedram.frontend.axi import LiteDRAMAXI2Native
from litedram.modules import MT41K64M16, MT48LC16M16
from litedram.phy import ECP5DDRPHY, GENSDRPHY
from litedram.phy.model import SDRAMPHYModel
from litex.build.io import CRG
from litex.build.sim import SimPlatform
from litex.gen import LiteXModule
from litex.soc.integration.builder import Builder
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect import stream
from litex.soc.interconnect.axi import AXIInterface
from litex_boards.platforms import gsd_orangecrab, radiona_ulx3s
from litex_boards.targets import gsd_orangecrab as orangecrab_target
from litex_boards.targets import radiona_ulx3s as ulx3s_target
from migen import If, Mux, Replicate, Signal
from network_soc import Accelerator
from run_network import CODE, compile_firmware, load, options_of, pack, play, processor, write_verilog
from simulate import CYCLES_PER_BIT, PINS, verilate

from openmxu.accelerator.bus.attached import BusAccelerator
from openmxu.export.verilog import to_verilog
from openmxu.spec.accelerator import AcceleratorConfig

CONFIG = AcceleratorConfig(size=4, stages=4, depth=256, rows=16384, weights=8192, program=4096)
NETWORK = 0x2000_0000
"""Address of the ROM with firmware and network."""


class Board(NamedTuple):
    """What a SoC is built on; ``clocks`` is LiteX's module for them."""

    platform: Any
    clocks: Any
    frequency: float
    baud: float
    phy: Any
    chip: Any


def ulx3s() -> Board:
    """A ULX3S-85F."""
    platform, frequency = radiona_ulx3s.Platform(device="LFE5U-85F"), 40e6
    clocks, phy = ulx3s_target._CRG(platform, frequency), GENSDRPHY(platform.request("sdram"), frequency)
    return Board(platform, clocks, frequency, 115200, phy, MT48LC16M16(frequency, "1:1"))


def orangecrab() -> Board:
    """An OrangeCrab r0.2 85F. The UART is at its pins 0 and 1: USB would need a core that PyPI lacks."""
    platform, frequency = gsd_orangecrab.Platform(device="85F"), 48e6
    platform.add_extension(gsd_orangecrab.feather_serial)
    clocks, pads = orangecrab_target._CRGSDRAM(platform, frequency), platform.request("ddram")
    phy = ECP5DDRPHY(pads, frequency, dm_remapping={0: 1, 1: 0}, cmd_delay=100)
    phy.settings.rtt_nom = "disabled"
    clocks.comb += [clocks.stop.eq(phy.init.stop), clocks.reset.eq(phy.init.reset)]
    clocks.comb += [pads.vccio.eq(0b111111), pads.gnd.eq(0)]
    return Board(platform, clocks, frequency, 115200, phy, MT41K64M16(frequency, "1:2"))


BOARDS = {"ulx3s": (ulx3s, 32), "orangecrab": (orangecrab, 64)}
"""Boards, and the beat of the accelerator: the nearest to LiteDRAM's words, of 16 bits and of 128."""


class Simulated(SimPlatform):
    """Verilator; LiteX's builder would add a bench of its own."""

    def build(self, soc: SoCCore, build_dir: str, **_: object) -> Any:
        """Write the Verilog."""
        return write_verilog(self, soc.get_fragment(), Path(build_dir))


def simulated(board: Board) -> Board:
    """The board in Verilator: its chip with a PHY without delays, thus without training."""
    platform, settings = Simulated("SIM", list(PINS)), board.phy.settings
    settings.phytype, settings.read_leveling = "SDRAMPHYModel", False
    phy = SDRAMPHYModel(board.chip, settings, clk_freq=board.frequency)
    clocks, baud = CRG(platform.request("sys_clk")), board.frequency / CYCLES_PER_BIT
    return board._replace(platform=platform, clocks=clocks, baud=baud, phy=phy)


class Halves(LiteXModule):
    """The half of a wide word that each beat of AXI4 is in, by the addresses of bursts."""

    def __init__(self, address: Any, data: Any, bit: int) -> None:
        self.queue = queue = stream.SyncFIFO([("half", 1)], 32)  # twice the beats that LiteDRAM has under way
        odd, self.half = Signal(), Signal()
        self.comb += [
            queue.sink.valid.eq(address.valid & address.ready),
            queue.sink.half.eq(address.addr[bit]),
            queue.source.ready.eq(data.valid & data.ready & data.last),
            self.half.eq(queue.source.half ^ odd),
        ]
        self.sync += If(data.valid & data.ready, odd.eq(~odd & ~data.last))


class Wider(LiteXModule):
    """AXI4 on one of twice its width, beat by beat: on a port that LiteDRAM 2024.12 widens, its AXI4 stores wrongly."""

    def __init__(self, narrow: AXIInterface) -> None:
        width = narrow.data_width
        self.wide = wide = AXIInterface(data_width=2 * width, address_width=32, id_width=1)
        bit = (width // 8).bit_length() - 1
        self.written, self.read = Halves(narrow.aw, narrow.w, bit), Halves(narrow.ar, narrow.r, bit)
        self.comb += [
            narrow.aw.connect(wide.aw),
            narrow.ar.connect(wide.ar),
            wide.b.connect(narrow.b),
            narrow.w.connect(wide.w, omit={"data", "strb"}),  # the accelerator offers it after its request was taken
            wide.w.data.eq(Replicate(narrow.w.data, 2)),
            wide.w.strb.eq(Mux(self.written.half, narrow.w.strb << width // 8, narrow.w.strb)),
            wide.r.connect(narrow.r, omit={"data"}),
            narrow.r.data.eq(Mux(self.read.half, wide.r.data[width:], wide.r.data[:width])),
        ]


class BoardSoC(SoCCore):
    """The SoC; firmware and network are ``rom`` bytes."""

    def __init__(self, board: Board, verilog: Path, beat: int, rom: int) -> None:
        # The BIOS takes up to 24 kB of its ROM.
        sizes = {"integrated_rom_size": 0x8000, "integrated_sram_size": 0x1000, "uart_baudrate": board.baud}
        super().__init__(board.platform, board.frequency, cpu_variant="lite", ident="OpenMXU", **sizes)
        self.crg, self.ddrphy = board.clocks, board.phy  # the BIOS trains a PHY of this name
        self.add_rom("network", NETWORK, rom, mode="rx")
        self.add_constant("ROM_BOOT_ADDRESS", NETWORK)
        # Without a cache, as the accelerator has a port of its own, and would not see what is in it.
        self.add_sdram("sdram", phy=board.phy, module=board.chip, l2_cache_size=0)
        self.accelerator = Accelerator(board.platform, verilog, beat)
        self.accelerator.attach(self)
        axi, word = self.accelerator.master, self.sdram.crossbar.controller.data_width
        if word > beat:
            self.wider = Wider(axi)
            axi = self.wider.wide
        port = self.sdram.crossbar.get_port(data_width=max(word, beat))
        self.bridge = LiteDRAMAXI2Native(axi, port, base_address=self.mem_map["main_ram"])


def main() -> None:
    """Build a board's SoC around a model; in Verilator, run it and compare the scores' bits with the definition."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("board", choices=BOARDS)
    parser.add_argument("--bitstream", action="store_true", help="build for the board, not for Verilator")
    parser.add_argument("--rows", type=int, default=CONFIG.rows, help="rows of the scratchpad (default: %(default)s)")
    options = options_of(parser)
    make, beat = BOARDS[options.board]
    network, pictures = load(options, replace(CONFIG, rows=options.rows, beat=beat))
    verilog, words = options.output / "accelerator.v", pack(network, pictures)
    verilog.write_text(to_verilog(BusAccelerator(network.lowered.config, "axi")))
    board = make() if options.bitstream else simulated(make())
    soc = BoardSoC(board, verilog, beat, CODE + 4 * len(words))
    if not options.bitstream:
        soc.add_config("BIOS_NO_DELAYS")
        soc.add_constant("SDRAM_TEST_DISABLE")
    soc.init_mems = lambda **_: soc.init_rom("network", compile_firmware(soc, options.output, "network") + words)
    # The BIOS is built by what is beside this Python, activated or not.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    builder = Builder(soc, options.output, bios_console="lite")
    # By itself, LiteX makes a bitstream whether nextpnr has met the clock or not.
    builder.build(**{"timingstrict": True} if options.bitstream else {})
    if not options.bitstream:
        program = verilate(Path(builder.gateware_dir), verilog, *processor(board.platform))
        raise SystemExit(play(program, network, pictures))


if __name__ == "__main__":
    main()
