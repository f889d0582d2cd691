"""The unit on a bus: AXI4-Stream for its streams, AXI4-Lite for configuration, control and counters."""

import re
from collections.abc import Mapping
from dataclasses import replace
from enum import IntEnum
from importlib.metadata import version
from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Const, DomainRenamer, Module, Mux, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FORMATS, FP32, FloatFormat
from openmxu.spec.marks import TILE_MARKS
from openmxu.unit.mxu import Mxu
from openmxu.unit.status import COUNTERS, Error

IDENTITY = int.from_bytes(b"MXU1", "big")
"""The value of register ``ID``."""

_WORD = 32
_OKAY, _SLVERR = 0, 2


class Register(IntEnum):
    """Byte addresses of the registers, each of 32 bits. All but ``CONTROL`` are read only."""

    ID = 0x00
    """:data:`IDENTITY`."""
    SIZE = 0x04
    """Rows in bits 15 to 0, columns in bits 31 to 16."""
    FORMAT = 0x08
    """Stages in 3 to 0, gradual underflow in 8, splitter in 9, the width of source words in 23 to 16, that of results
    in 31 to 24; the operand format in the other bits, see :func:`read_format`."""
    DEPTH = 0x0C
    """Rows of the accumulator bank."""
    CONTROL = 0x10
    """A 1 written to bit 0 clears counters and error, one to bit 1 resets the unit, but not this bus. Reads as 0."""
    ERROR = 0x14
    """The first mistake of a sender, an :class:`~openmxu.unit.status.Error`."""
    CYCLES = 0x18
    """Cycles from the first beat taken on either input stream to the last result beat taken."""
    BUSY = 0x1C
    """Cycles in which a beat of activations entered the array."""
    INPUT_STALLS = 0x20
    """Cycles in which no beat entered because activations or weights were missing."""
    OUTPUT_STALLS = 0x24
    """Cycles in which no beat entered because no place for its sums was free."""
    LATENCY = 0x28
    """Cycles from an activation beat taken to its result beat offered, if nothing waits."""
    SHORTEST_TILE = 0x2C
    """Activation beats from which on tiles that are added up follow one another without a bubble."""
    ACCUMULATE = 0x30
    """The format of sums, in the same bits as the operand format in ``FORMAT``; in bits 17 to 16 the binary logarithm
    of the number of terms. The upper half, without these, has the format of weights in the same bits where it is not
    the operand format, else 0."""
    VERSION = 0x34
    """This project's version, 0.12.3 as 0x000C03: a later version is a larger number."""


_ADDRESS = max(Register).bit_length()


def read_format(word: int) -> FloatFormat:
    """The format in ``FORMAT`` or ``ACCUMULATE``: exponent bits in 7 to 4, fraction bits in 14 to 10, 15: no infinity.

    Raises
    ------
    ValueError
        A width is out of range.
    """
    widths = word >> 4 & 0xF, word >> 10 & 0x1F, not word >> 15 & 1
    fmt = FloatFormat("e{}f{}".format(*widths), *widths)
    return next((each for each in FORMATS.values() if _format_bits(each) == _format_bits(fmt)), fmt)


def _format_bits(fmt: FloatFormat) -> int:
    return fmt.exponent_width << 4 | fmt.fraction_width << 10 | (not fmt.has_infinity) << 15


def version_bits() -> int:
    """Major, minor and patch number in a byte each; the suffix of a pre-release is left out."""
    return int.from_bytes(map(int, re.findall(r"\d+", version("openmxu"))[:3]))


def constant_registers(config: MxuConfig) -> dict[Register, int]:
    """The registers that describe a unit, and their values."""
    formats = (
        config.stages
        | _format_bits(config.operand)
        | (config.subnormals == "ieee") << 8
        | config.splitter << 9
        | config.source.width << 16
        | config.result.width << 24
    )
    return {
        Register.ID: IDENTITY,
        Register.SIZE: config.rows | config.columns << 16,
        Register.FORMAT: formats,
        Register.DEPTH: config.depth,
        Register.CONTROL: 0,
        Register.LATENCY: config.latency,
        Register.SHORTEST_TILE: config.shortest_tile,
        Register.ACCUMULATE: _format_bits(FP32)
        | (config.terms.bit_length() - 1 | (_format_bits(config.weight) if config.weight else 0)) << 16,
        Register.VERSION: version_bits(),
    }


def axi_config(config: MxuConfig) -> MxuConfig:
    """The configuration of the unit behind the bus: ``config``, with ``status``.

    Raises
    ------
    ValueError
        A word is not a whole number of bytes.
    """
    for noun in ("source", "result"):
        fmt = getattr(config, noun)
        if fmt.width % 8:
            raise ValueError(f"{noun} must be a format of whole bytes on AXI4-Stream, not {fmt}")
    return replace(config, status=True)


class Registers(wiring.Component):
    """The registers of a unit behind an AXI4-Lite port.

    Address and data of a write may come in any order. A write to any address but ``CONTROL``, aligned or not, is
    answered with SLVERR and does nothing. A read of an address without a register is answered with SLVERR and zero.
    A write to ``CONTROL`` without its lowest byte is answered with OKAY and does nothing.

    Latency: an answer comes one cycle after its request. Throughput: one read and one write per cycle; after an
    answer had to wait for its master, a cycle passes before the next request is taken. Back-pressure: on all channels.
    All outputs come from registers: none follows an input within the cycle.

    Parameters
    ----------
    config
        The unit.

    Members
    -------
    awaddr, awvalid, awready, wdata, wstrb, wvalid, wready, bresp, bvalid, bready : AXI4-Lite write channels
    araddr, arvalid, arready, rdata, rresp, rvalid, rready : AXI4-Lite read channels
    awprot, arprot : In(3)
        Ignored.
    i_cycles, i_busy, i_input_stalls, i_output_stalls : In(32)
    i_error : In(3)
    o_clear, o_reset : Out(1)
        For one cycle each.

    Attributes
    ----------
    held : dict of Signal
        By channel, ``"ar"``, ``"aw"`` and ``"w"``: the request that was taken and waits, while ``ready`` is low.
    """

    def __init__(self, config: MxuConfig) -> None:
        self.config = config
        super().__init__(
            axi_lite(_ADDRESS)
            | {f"i_{name}": In(_WORD) for name in COUNTERS}
            | {"i_error": In(Error)}
            | {"o_clear": Out(1), "o_reset": Out(1)}
        )
        self.held = {
            "ar": Signal.like(self.araddr, name="ar_held", reset_less=True),
            "aw": Signal.like(self.awaddr, name="aw_held", reset_less=True),
            "w": Signal(2, name="w_held", reset_less=True),
        }

    def elaborate(self, platform: object) -> Module:
        """A register for each answer, and one for each request that comes while the answer waits."""
        m = Module()
        shown: dict[Register, Value] = {
            **{register: Const(value, _WORD) for register, value in constant_registers(self.config).items()},
            **{Register[name.upper()]: getattr(self, f"i_{name}") for name in (*COUNTERS, "error")},
        }
        reading = Signal()
        asked, address = self._take(m, "ar", self.araddr, reading)
        m.d.comb += reading.eq(asked & (self.rready | ~self.rvalid))
        with m.If(self.rready | ~self.rvalid):
            m.d.sync += self.rvalid.eq(reading)
            with m.Switch(address):
                for register, value in shown.items():
                    with m.Case(register):
                        m.d.sync += [self.rdata.eq(value), self.rresp.eq(_OKAY)]
                with m.Default():
                    m.d.sync += [self.rdata.eq(0), self.rresp.eq(_SLVERR)]

        writing = Signal()
        addressed, address = self._take(m, "aw", self.awaddr, writing)
        given, commands = self._take(m, "w", self.wdata[:2] & self.wstrb[0].replicate(2), writing)
        known = address == Register.CONTROL
        m.d.comb += writing.eq(addressed & given & (self.bready | ~self.bvalid))
        m.d.sync += Cat(self.o_clear, self.o_reset).eq(commands & (writing & known).replicate(2))
        with m.If(self.bready | ~self.bvalid):
            m.d.sync += [self.bvalid.eq(writing), self.bresp.eq(Mux(known, _OKAY, _SLVERR))]
        return m

    def _take(self, m: Module, channel: str, request: Value, used: Value) -> tuple[Value, Value]:
        """Return whether a channel has a request, and the request; one that is not ``used`` in its cycle is held."""
        ready, held = getattr(self, f"{channel}ready"), self.held[channel]
        there = getattr(self, f"{channel}valid") | ~ready
        which = Mux(ready, request, held)
        m.d.sync += [ready.eq(~there | used), held.eq(which)]
        return there, which


def connect_ports(m: Module, outside: Any, inside: Any, ports: Mapping[str, Any], prefix: str = "") -> None:
    """Connect an inner component's ports to the prefixed ports of a component around it."""
    for name, port in ports.items():
        inner, outer = getattr(inside, name), getattr(outside, f"{prefix}{name}")
        m.d.comb += inner.eq(outer) if port.flow == In else outer.eq(inner)


def axi_lite(address: int) -> dict[str, Any]:
    """The ports of an AXI4-Lite subordinate with addresses of this width."""
    taken, answered = {"valid": In(1), "ready": Out(1, init=1)}, {"resp": Out(2), "valid": Out(1), "ready": In(1)}
    request = {"addr": In(address), "prot": In(3), **taken}
    written = {"data": In(_WORD), "strb": In(_WORD // 8), **taken}
    channels = {"aw": request, "w": written, "b": answered, "ar": request, "r": {"data": Out(_WORD), **answered}}
    return {f"{channel}{name}": port for channel, ports in channels.items() for name, port in ports.items()}


class AxiMxu(wiring.Component):
    """A unit whose three streams are AXI4-Streams, with registers on AXI4-Lite.

    A packet of weights is the R beats of a tile, row R-1 first; one of activations is a tile, so that its first beat
    is the one after TLAST. TDATA holds the words of a beat, word 0 in the lowest bytes, each little-endian. All bytes
    of all beats count: there is no TKEEP. Marks that are constant within a tile are in TUSER of each beat.

    Latency and throughput: those of :class:`~openmxu.unit.mxu.Mxu`. Back-pressure: on all streams.

    The unit has ``status``. ``aresetn`` and the control register's bit reset it, at a rising edge of ``aclk``.

    Parameters
    ----------
    config
        The unit; the words on its streams must be whole bytes.

    Members
    -------
    aclk, aresetn : In(1)
    s_axis_weights_tdata : In(columns · source.width)
    s_axis_weights_tuser : In(3)
        The :class:`~openmxu.spec.passes.Part`; only with ``splitter``.
    s_axis_activations_tdata : In(rows · source.width)
    s_axis_activations_tuser : In(4 or 7)
        Bit 0 ``add``, 1 ``clear_nan``, 2 ``emit``, 3 ``keep``; with ``splitter`` 6:4 the
        :class:`~openmxu.spec.passes.Part`.
    m_axis_results_tdata : Out(columns · result.width)
    s_axis_weights, s_axis_activations, m_axis_results : tvalid, tready, tlast
    s_axil : AXI4-Lite
        See :class:`Register`.

    Raises
    ------
    ValueError
        A word is not a whole number of bytes.
    """

    module_name = "mxu_axi"
    """Name of the exported module."""

    def __init__(self, config: MxuConfig) -> None:
        self.config = axi_config(config)
        self._part = 3 * config.splitter
        streams = {
            "s_axis_weights": (In, config.columns * config.source.width, self._part),
            "s_axis_activations": (In, config.rows * config.source.width, len(TILE_MARKS) + self._part),
            "m_axis_results": (Out, config.columns * config.result.width, 0),
        }
        ports: dict[str, Any] = {"aclk": In(1), "aresetn": In(1)}
        for name, (flow, data, user) in streams.items():
            against = Out if flow is In else In
            ports |= {
                f"{name}_tdata": flow(data),
                f"{name}_tvalid": flow(1),
                f"{name}_tready": against(1),
                f"{name}_tlast": flow(1),
            } | ({f"{name}_tuser": flow(user)} if user else {})
        super().__init__(ports | {f"s_axil_{name}": port for name, port in axi_lite(_ADDRESS).items()})

    # The bus adds no cycle.
    latency, shortest_tile = Mxu.latency, Mxu.shortest_tile

    def elaborate(self, platform: object) -> Module:
        """The unit in a clock domain that the registers can reset, the registers in one that they cannot."""
        m = Module()
        m.domains.sync = ClockDomain(local=True)
        m.domains.bus = ClockDomain(local=True)
        m.submodules.unit = unit = Mxu(self.config)
        registers = Registers(self.config)
        m.submodules.registers = DomainRenamer("bus")(registers)
        m.d.comb += [
            ClockSignal().eq(self.aclk),
            ResetSignal().eq(~self.aresetn | registers.o_reset),
            ClockSignal("bus").eq(self.aclk),
            ResetSignal("bus").eq(~self.aresetn),
            *(getattr(registers, f"i_{name}").eq(getattr(unit.status, name)) for name in (*COUNTERS, "error")),
            unit.status.clear.eq(registers.o_clear),
        ]
        connect_ports(m, self, registers, axi_lite(_ADDRESS), "s_axil_")
        self._connect_streams(m, unit)
        return m

    def _connect_streams(self, m: Module, unit: Mxu) -> None:
        """The unit's streams as AXI4-Streams: a tile of activations begins after the last beat of another."""
        begins = Signal(init=1)
        with m.If(self.s_axis_activations_tvalid & self.s_axis_activations_tready):
            m.d.sync += begins.eq(self.s_axis_activations_tlast)
        weights, activations = unit.weights.payload, unit.activations.payload
        user = self.s_axis_activations_tuser
        m.d.comb += [
            Value.cast(weights.data).eq(self.s_axis_weights_tdata),
            weights.last.eq(self.s_axis_weights_tlast),
            unit.weights.valid.eq(self.s_axis_weights_tvalid),
            self.s_axis_weights_tready.eq(unit.weights.ready),
            Value.cast(activations.data).eq(self.s_axis_activations_tdata),
            activations.first.eq(begins),
            activations.last.eq(self.s_axis_activations_tlast),
            Cat(activations[mark] for mark in TILE_MARKS).eq(user),
            unit.activations.valid.eq(self.s_axis_activations_tvalid),
            self.s_axis_activations_tready.eq(unit.activations.ready),
            self.m_axis_results_tdata.eq(Value.cast(unit.results.payload.data)),
            self.m_axis_results_tlast.eq(unit.results.payload.last),
            self.m_axis_results_tvalid.eq(unit.results.valid),
            unit.results.ready.eq(self.m_axis_results_tready),
        ]
        if self.config.splitter:
            m.d.comb += [weights.part.eq(self.s_axis_weights_tuser), activations.part.eq(user[len(TILE_MARKS) :])]
