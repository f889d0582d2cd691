"""A LiteX SoC with a RISC-V processor and the accelerator that `openmxu verilog accelerator` writes.

VexRiscv ──┐        ┌── ROM: firmware and a network
           ├─ bus ──┤
accelerator┘        ├── main memory: pictures, weights, results
  │                 └── UART, registers of the accelerator
  └── interrupt
"""

from pathlib import Path
from typing import Any

from litex.build.io import CRG
from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect import wishbone
from litex.soc.interconnect.axi import AXIInterface, AXILiteInterface
from litex.soc.interconnect.csr_eventmanager import EventManager, EventSourceLevel
from migen import ClockSignal, Instance, ResetSignal
from soc import axi_ports

REGISTERS = 0x9000_0000
ROM_BYTES, SRAM_BYTES, MAIN_RAM_BYTES = 0x2_0000, 0x1000, 0x2_0000


class Accelerator(LiteXModule):
    """The exported module: a subordinate ``registers``, a manager ``master``, and an interrupt.

    ``beat`` is the width of its AXI; 0: it has Wishbone.
    """

    def __init__(self, platform: Any, verilog: Path, beat: int = 0) -> None:
        platform.add_source(str(verilog))
        self.ev = EventManager()
        self.ev.done = EventSourceLevel()
        self.ev.finalize()
        if beat:
            self.registers = AXILiteInterface(data_width=32, address_width=32)
            self.master = AXIInterface(data_width=beat, address_width=32, id_width=1)
            ports = {"i_aclk": ClockSignal(), "i_aresetn": ~ResetSignal()}
            ports |= axi_ports("s_axil", self.registers, "io", 8) | axi_ports("m_axi", self.master, "oi", 32)
        else:
            self.registers = wishbone.Interface(data_width=32, address_width=32, addressing="word")
            self.master = wishbone.Interface(data_width=32, address_width=32, addressing="word")
            ports = {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
            ports |= _wishbone("s_wb", self.registers, "io", 6) | _wishbone("m_wb", self.master, "oi", 30)
        name = "accelerator_axi" if beat else "accelerator_wishbone"
        self.specials += Instance(name, o_irq=self.ev.done.trigger, **ports)

    def attach(self, soc: SoCCore) -> None:
        """Give the accelerator its registers and its interrupt; it is ``soc.accelerator``."""
        soc.irq.add("accelerator", use_loc_if_exists=True)
        soc.bus.add_slave("accelerator", self.registers, SoCRegion(origin=REGISTERS, size=0x1000, cached=False))


def _wishbone(prefix: str, bus: Any, directions: str, bits: int) -> dict[str, Any]:
    """Ports of the module at a Wishbone: those that a manager drives, and those that it is answered by."""
    driven, answered = ("adr", "dat_w", "sel", "cyc", "stb", "we", "cti", "bte"), ("dat_r", "ack", "err")
    ports = {f"{directions[0]}_{prefix}_{name}": getattr(bus, name) for name in driven}
    ports |= {f"{directions[1]}_{prefix}_{name}": getattr(bus, name) for name in answered}
    return ports | {f"{directions[0]}_{prefix}_adr": bus.adr[:bits]}


class NetworkSoC(SoCCore):
    """The SoC; ``init_rom`` fills its ROM."""

    def __init__(self, platform: Any, clock: Any, frequency: float, baud: float, verilog: Path) -> None:
        super().__init__(
            platform,
            frequency,
            cpu_type="vexriscv",
            cpu_variant="lite",
            integrated_rom_size=ROM_BYTES,
            integrated_sram_size=SRAM_BYTES,
            integrated_main_ram_size=MAIN_RAM_BYTES,
            uart_baudrate=baud,
            ident="OpenMXU",
            ident_version=False,
            timer_uptime=False,
        )
        self.crg = CRG(clock)
        self.accelerator = Accelerator(platform, verilog)
        self.accelerator.attach(self)
        self.bus.add_master("accelerator", self.accelerator.master)
