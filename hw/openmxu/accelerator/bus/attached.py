"""An accelerator on a bus: its registers, itself, and the manager of what it moves.

::

    registers ─▶ [ control ] ─▶ [ accelerator ] ─▶ [ master ] ─▶ bus
                      └───────────▶ resets both, when the bus has answered all
"""

from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.bus.axi4 import AxiMaster, axi4
from openmxu.accelerator.bus.control import Control
from openmxu.accelerator.bus.register_ports import ADDRESS as REGISTERS
from openmxu.accelerator.bus.register_ports import AxiLite, WishboneRegisters, wishbone
from openmxu.accelerator.bus.wishbone import WishboneMaster
from openmxu.accelerator.core import MEMORIES, Accelerator
from openmxu.accelerator.movers.port import ADDRESS, BASE
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.unit.axi import axi_lite, connect_ports

BUSES = ("axi", "wishbone")


def _manager(config: AcceleratorConfig, bus: str) -> dict[str, Any]:
    """The ports of the manager on a bus."""
    return axi4(config) if bus == "axi" else wishbone(config.beat, ADDRESS, Out)


class AttachedAccelerator(wiring.Component):
    """An accelerator that has a bus, with the manager of one of :data:`BUSES`, and a host's ports."""

    module_name = "accelerator"
    """Name of the exported module."""

    def __init__(self, config: AcceleratorConfig, bus: str = "axi") -> None:
        self.config, self.bus = config, bus
        self._inside = Accelerator(config)
        self._host = {name: port for name, port in self._inside.signature.members.items() if name != "bus"}
        # i_base: bits 31 to 12 of the window's first byte.
        super().__init__({**self._host, "i_base": In(BASE), **_manager(config, bus)})

    def elaborate(self, platform: object) -> Module:
        """Connect both."""
        m = Module()
        m.submodules.accelerator = accelerator = self._inside
        m.submodules.master = master = (AxiMaster if self.bus == "axi" else WishboneMaster)(self.config)
        m.d.comb += master.i_base.eq(self.i_base)
        wiring.connect(m, accelerator.bus, master.port)
        connect_ports(m, self, accelerator, self._host)
        connect_ports(m, self, master, _manager(self.config, self.bus))
        return m


class BusAccelerator(wiring.Component):
    """An accelerator with registers and an interrupt; it reads operands and weights from a bus, and writes results.

    The memory of commands is written by registers, all others by commands. A reset by ``CONTROL`` waits until the bus
    has answered all that is under way; ``rst`` or ``aresetn`` must reset the bus, too.

    Parameters
    ----------
    config
        Sizes; it must have a bus.
    bus
        ``"axi"``: AXI4, and AXI4-Lite for registers. ``"wishbone"``: Wishbone for both.

    Members
    -------
    aclk, aresetn, or clk, rst : In(1)
    s_axil : AXI4-Lite, or s_wb : Wishbone
        See :class:`~openmxu.accelerator.bus.control.Register`.
    m_axi : AXI4, or m_wb : Wishbone
    irq : Out(1)
        High until the bits of ``INTERRUPT`` are cleared.

    Raises
    ------
    ValueError
        There is no such bus.
    """

    def __init__(self, config: AcceleratorConfig, bus: str = "axi") -> None:
        if bus not in BUSES:
            raise ValueError(f"bus must be one of {', '.join(BUSES)}, not {bus!r}")
        if not config.beat:
            raise ValueError(f"beat must be 32 bits or more on a bus, not {config.beat}")
        self.config, self.bus = config, bus
        clocks, front, manager = ("aclk", "aresetn"), "s_axil_", "m_axi_"
        if bus == "wishbone":
            clocks, front, manager = ("clk", "rst"), "s_wb_", "m_wb_"
        registers = axi_lite(REGISTERS) if bus == "axi" else wishbone(32, REGISTERS, In)
        self._ports = {front: registers, manager: _manager(config, bus)}  # by their prefixes
        ports = {f"{prefix}{name}": port for prefix, named in self._ports.items() for name, port in named.items()}
        super().__init__({**dict.fromkeys(clocks, In(1)), **ports, "irq": Out(1)})

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"accelerator_{self.bus}"

    def elaborate(self, platform: object) -> Module:
        """The accelerator in a clock domain that the registers can reset, the registers in one that they cannot."""
        m = Module()
        is_axi = self.bus == "axi"
        m.domains.sync = ClockDomain(local=True)
        m.domains.host = ClockDomain(local=True)
        m.submodules.attached = attached = AttachedAccelerator(self.config, self.bus)
        control, front = Control(self.config), (AxiLite if is_axi else WishboneRegisters)()
        m.submodules.control = DomainRenamer("host")(control)
        m.submodules.front = DomainRenamer("host")(front)
        clock, reset = (self.aclk, ~self.aresetn) if is_axi else (self.clk, self.rst)
        m.d.comb += [
            ClockSignal().eq(clock),
            ClockSignal("host").eq(clock),
            ResetSignal().eq(reset | control.o_reset),
            ResetSignal("host").eq(reset),
            self.irq.eq(control.o_interrupt),
        ]
        for part, (prefix, ports) in zip((front, attached), self._ports.items(), strict=True):
            connect_ports(m, self, part, ports, prefix)
        wiring.connect(m, front.port, control.port)
        self._connect_control(m, control, attached)
        return m

    def _connect_control(self, m: Module, control: Control, attached: AttachedAccelerator) -> None:
        given = ("base", "start", "program", "halt", "window", "address", "data")
        state = ("running", "ended", "quiet", "tag", "index", "stop")
        m.d.comb += [
            attached.i_write.eq(control.o_write << MEMORIES.index("program")),
            *(getattr(attached, f"i_{name}").eq(getattr(control, f"o_{name}")) for name in given),
            *(getattr(control, f"i_{name}").eq(getattr(attached, f"o_{name}")) for name in state),
        ]
