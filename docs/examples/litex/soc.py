"""A LiteX SoC around the unit that `openmxu verilog mxu --bus axi` writes: no processor, a host drives it by UARTBone.

UART ── UARTBone ──┐  ┌── registers of the unit (AXI4-Lite), CSRs
                   bus
         memory ───┘  ├── DMA ── Tiles ──> s_axis_weights
                      ├── DMA ── Tiles ──> s_axis_activations
                      └── DMA <──────────── m_axis_results
"""

import argparse
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from litex.build.io import CRG
from litex.build.yosys_nextpnr_toolchain import YosysNextPNRToolchain
from litex.gen import LiteXModule
from litex.soc.cores.dma import WishboneDMAReader, WishboneDMAWriter
from litex.soc.integration.builder import Builder
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCMini
from litex.soc.interconnect import stream, wishbone
from litex.soc.interconnect.axi import AXIInterface, AXILiteInterface
from litex.soc.interconnect.csr import CSRStatus, CSRStorage
from migen import FSM, ClockSignal, If, Instance, NextState, NextValue, ResetInserter, ResetSignal, Signal

WORD = 32
"""Bits of a word on the bus."""

MEMORY = 8192
"""Bytes for operands and results. The host cuts a product into batches that fit."""


class Tiles(LiteXModule):
    """Words from the memory as tiles on an AXI4-Stream. A tile is a header word and the words of its beats.

    Header: bits 23:0 hold how many words follow, bits 31:24 TUSER, which stays the same for the whole tile.
    """

    def __init__(self, width: int) -> None:
        self.sink = stream.Endpoint([("data", WORD)])
        self.source = stream.Endpoint([("data", width)])
        self.user = Signal(8)
        self.converter = converter = stream.Converter(WORD, width)
        self.comb += converter.source.connect(self.source)
        left = Signal(24)
        self.fsm = fsm = FSM(reset_state="HEADER")
        fsm.act(
            "HEADER",
            # TUSER belongs to the tile before as long as the converter holds a beat of it.
            self.sink.ready.eq(~converter.source.valid),
            If(
                self.sink.valid & self.sink.ready,
                NextValue(left, self.sink.data[:24]),
                NextValue(self.user, self.sink.data[24:]),
                NextState("WORDS"),
            ),
        )
        fsm.act(
            "WORDS",
            self.sink.connect(converter.sink, omit={"last"}),
            converter.sink.last.eq(left == 1),
            If(self.sink.valid & self.sink.ready, NextValue(left, left - 1), If(left == 1, NextState("HEADER"))),
        )


class Sender(LiteXModule):
    """A DMA that reads tiles from the memory and sends them to the unit."""

    def __init__(self, width: int) -> None:
        # "big": the bus has each word's bytes in the order in which the unit has them. "little" would swap them.
        self.dma = WishboneDMAReader(wishbone.Interface(data_width=WORD), endianness="big")
        self.dma.add_ctrl()
        self.tiles = Tiles(width)
        self.comb += self.dma.source.connect(self.tiles.sink)


class Receiver(LiteXModule):
    """A DMA that writes the unit's results to the memory."""

    def __init__(self, width: int) -> None:
        self.dma = WishboneDMAWriter(wishbone.Interface(data_width=WORD), endianness="big")
        # Results wait until the DMA is enabled. By default they would be dropped up to then.
        self.dma.add_ctrl(ready_on_idle=0)
        self.converter = stream.Converter(width, WORD)
        # Without `last`, which comes with each tile: the DMA would stop at the first.
        self.comb += self.converter.source.connect(self.dma.sink, omit={"last"})


class MatrixUnit(LiteXModule):
    """The unit behind three DMAs; its registers are at the port ``registers``.

    The widths of its streams are read from its Verilog, so that there is nothing to keep in step. A beat must be a
    whole number of words.

    CSRs: ``weights_base``, ``weights_length`` and so on are in bytes; the length of an enabled DMA must not be 0.
    ``enable`` and ``done`` have a bit for each DMA: weights in bit 0, then activations, then results. One write starts
    them all, as there must be no other while they run: a DMA has the bus until it pauses, and UARTBone loses the bytes
    that come while it waits to write. ``reset`` resets all but the CSRs: write 1, then 0.
    """

    def __init__(self, platform: Any, unit: Path) -> None:
        verilog = unit.read_text()
        platform.add_source(str(unit))
        self.weights = ResetInserter()(Sender(beat(verilog, "s_axis_weights_tdata")))
        self.activations = ResetInserter()(Sender(beat(verilog, "s_axis_activations_tdata")))
        self.results = ResetInserter()(Receiver(beat(verilog, "m_axis_results_tdata")))
        self.registers = AXILiteInterface(data_width=WORD, address_width=32)
        self._add_csrs()
        connections = self._streams() | axi_ports("s_axil", self.registers, "io", 6)
        if port_width(verilog, "s_axis_weights_tuser"):
            connections["i_s_axis_weights_tuser"] = self.weights.tiles.user[:3]
        user = self.activations.tiles.user[: port_width(verilog, "s_axis_activations_tuser")]
        self.specials += Instance(
            "mxu_axi",
            i_aclk=ClockSignal(),
            i_aresetn=~(ResetSignal() | self.reset.storage),
            i_s_axis_activations_tuser=user,
            **connections,
        )

    def _add_csrs(self) -> None:
        """What the host writes and reads."""
        self.enable = CSRStorage(3)
        self.done = CSRStatus(3)
        self.reset = CSRStorage()
        for bit, name in enumerate(("weights", "activations", "results")):
            part = getattr(self, name)
            base, length = (CSRStorage(WORD, name=f"{name}_{what}") for what in ("base", "length"))
            setattr(self, f"{name}_base", base)
            setattr(self, f"{name}_length", length)
            self.comb += [
                part.reset.eq(self.reset.storage),
                part.dma.base.eq(base.storage),
                part.dma.length.eq(length.storage),
                part.dma.enable.eq(self.enable.storage[bit]),
                self.done.status[bit].eq(part.dma.done),
            ]

    def _streams(self) -> dict[str, Any]:
        """Data, valid, ready and last of the three streams."""
        connections: dict[str, Any] = {}
        for name, source in (("weights", self.weights.tiles.source), ("activations", self.activations.tiles.source)):
            connections |= {
                f"i_s_axis_{name}_tdata": source.data,
                f"i_s_axis_{name}_tvalid": source.valid,
                f"o_s_axis_{name}_tready": source.ready,
                f"i_s_axis_{name}_tlast": source.last,
            }
        sink = self.results.converter.sink
        return connections | {
            "o_m_axis_results_tdata": sink.data,
            "o_m_axis_results_tvalid": sink.valid,
            "i_m_axis_results_tready": sink.ready,
            "o_m_axis_results_tlast": sink.last,
        }


def axi_ports(prefix: str, bus: Any, directions: str, bits: int) -> dict[str, Any]:
    """Ports of the module at an AXI4 or AXI4-Lite: requests go the way of ``directions[0]``, answers the other."""
    asked, fields = ["addr", "prot"], {"w": ["data", "strb"], "b": ["resp"], "r": ["data", "resp"]}
    if isinstance(bus, AXIInterface):
        asked += ["burst", "cache", "id", "len", "lock", "qos", "size"]
        fields = {"w": ["data", "strb", "last"], "b": ["id", "resp"], "r": ["data", "id", "last", "resp"]}
    ports = {}
    for name, members in ({"aw": asked, "ar": asked} | fields).items():
        channel, (forth, back) = getattr(bus, name), directions[::-1] if name in ("b", "r") else directions
        ports |= {f"{forth}_{prefix}_{name}{member}": getattr(channel, member) for member in ("valid", *members)}
        ports[f"{back}_{prefix}_{name}ready"] = channel.ready
        if name in ("aw", "ar"):
            ports[f"{forth}_{prefix}_{name}addr"] = channel.addr[:bits]
    return ports


def port_width(verilog: str, port: str) -> int:
    """Bits of a port of the unit's top module, which is the last one in the file; 0 if it has no such port."""
    top = verilog.partition("\nmodule mxu_axi(")[2]
    found = re.search(rf"^  (?:input|output) (?:\[(\d+):0\] )?{port};", top, re.M)
    return int(found[1] or 0) + 1 if found else 0


def beat(verilog: str, port: str) -> int:
    """Bits of a stream's beat, which the DMAs move as whole words."""
    width = port_width(verilog, port)
    if not width or width % WORD:
        raise SystemExit(f"{port} of module mxu_axi must be a multiple of {WORD} bits wide, not {width}")
    return width


class MatrixSoC(SoCMini):
    """SoCMini with UARTBone, a memory and the unit."""

    def __init__(self, platform: Any, clock: Any, frequency: float, baud: float, unit: Path) -> None:
        super().__init__(platform, clk_freq=frequency, ident="OpenMXU on LiteX")
        self.crg = CRG(clock)
        self.add_uartbone(baudrate=baud)
        self.add_ram("operands", origin=0x1000_0000, size=MEMORY)
        self.mxu = MatrixUnit(platform, unit)
        self.bus.add_slave("registers", self.mxu.registers, SoCRegion(origin=0x2000_0000, size=0x1000, cached=False))
        for name in ("weights", "activations", "results"):
            self.bus.add_master(name, getattr(self.mxu, name).dma.bus)


def main() -> None:
    """Build a bitstream for a board that litex-boards knows, with its oscillator as the clock."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("board", help="a module of litex_boards.platforms, such as radiona_ulx3s")
    parser.add_argument("--device", help="where a board has one of several")
    parser.add_argument("--unit", type=Path, default=Path("mxu_axi.v"), help="what openmxu verilog has written")
    parser.add_argument("--baud", type=int, default=1_000_000, help="of the UART")
    parser.add_argument("--no-compile", action="store_true", help="write Verilog and scripts only")
    options = parser.parse_args()
    if not options.unit.is_file():
        parser.error(f"--unit must be a file that openmxu verilog mxu --bus axi has written, not {options.unit}")
    try:
        board = import_module(f"litex_boards.platforms.{options.board}")
    except ModuleNotFoundError:
        parser.error(f"board must be a module of litex_boards.platforms, not {options.board!r}")
    platform = board.Platform(**{"device": options.device} if options.device else {})
    frequency = 1e9 / platform.default_clk_period
    soc = MatrixSoC(platform, platform.request(platform.default_clk_name), frequency, options.baud, options.unit)
    if (esp32 := platform.request("wifi_gpio0", loose=True)) is not None:
        soc.comb += esp32.eq(1)  # or it resets the FPGA of a ULX3S
    # By itself, LiteX makes a bitstream whether nextpnr has met the clock or not.
    strict = {"timingstrict": True} if isinstance(platform.toolchain, YosysNextPNRToolchain) else {}
    Builder(soc, csr_csv="csr.csv", compile_gateware=not options.no_compile).build(**strict)


if __name__ == "__main__":
    main()
