"""The rules of AXI4-Lite as hardware that monitors the registers of a unit."""

import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32
from openmxu.unit.axi import IDENTITY, Register, Registers, connect_ports
from openmxu.unit.status import COUNTERS

_OKAY, _SLVERR = 0, 2


class Requests(wiring.Component):
    """The requests of a channel that are taken and not answered, two at most."""

    def __init__(self, width: int) -> None:
        super().__init__(
            {
                **dict.fromkeys(("i_taken", "i_answered"), In(1)),  # a request is taken, or answered, in this cycle
                "i_request": In(width),  # the one that is taken
                "o_count": Out(2),
                **dict.fromkeys(("o_oldest", "o_second"), Out(width)),  # valid as far as o_count says
                "o_wrong": Out(1),  # there was an answer without a request, or a third request, since the reset
            }
        )

    def elaborate(self, platform: object) -> Module:
        """A queue of two."""
        m = Module()
        left = Signal.like(self.o_count)
        wrong = (self.i_answered & (self.o_count == 0)) | (self.i_taken & (left == 2))
        m.d.comb += left.eq(self.o_count - self.i_answered)
        m.d.sync += [self.o_count.eq(left + self.i_taken), self.o_wrong.eq(self.o_wrong | wrong)]
        with m.If(self.i_answered):
            m.d.sync += self.o_oldest.eq(self.o_second)
        with m.If(self.i_taken & (left == 0)):
            m.d.sync += self.o_oldest.eq(self.i_request)
        with m.If(self.i_taken & (left == 1)):
            m.d.sync += self.o_second.eq(self.i_request)
        return m


class WatchedRegisters(wiring.Component):
    """Registers, and a check that they obey AXI4-Lite and their own reference.

    ``o_kept`` is high in a cycle if, whatever the master does and did:

    - an answer that was refused is still there, and the same;
    - there is an answer exactly if a read, or address and data of a write, were taken and not answered: so none comes
      without a request, each request has one, one cycle after it or after the previous answer;
    - the answer is that to the oldest request: the response to its address; a counter's value when the answer was made;
      zero for an address without a register;
    - commands come with the answer to a write that holds them, for one cycle, and at no other time.

    ``o_kept`` is inductive: it also constrains the held requests, so that ``o_kept`` in one cycle implies ``o_kept`` in
    the next.

    ``o_covered`` is high if all of these happened since the reset: on each channel a request was held, on each an
    answer was refused, and a command was given.
    """

    module_name = "watched_registers"
    """Name of the exported module."""

    def __init__(self, registers: Registers) -> None:
        self.registers = registers
        super().__init__(dict(registers.signature.members) | {"o_kept": Out(1), "o_covered": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Queues of requests beside the registers, and the rules between them."""
        m = Module()
        m.submodules.registers = registers = self.registers
        connect_ports(m, self, registers, dict(registers.signature.members))
        reads, *of_reads = self._follow(m, "ar", "r", self.araddr)
        addresses, *of_addresses = self._follow(m, "aw", "b", self.awaddr)
        words, *of_words = self._follow(m, "w", "b", Cat(self.wdata[:2], self.wstrb[0]), _commands)
        read_refused, read_stays = self._refuse(m, "r", Cat(self.rdata, self.rresp))
        write_refused, write_stays = self._refuse(m, "b", self.bresp)

        known = addresses.o_oldest == Register.CONTROL
        commands = _commands(words.o_oldest) & (self.bvalid & ~write_refused & known).replicate(2)
        rules = [
            *(*of_reads, *of_addresses, *of_words, read_stays, write_stays),
            self.rvalid == (reads.o_count != 0),
            self.bvalid == ((addresses.o_count != 0) & (words.o_count != 0)),
            ~self.rvalid | read_refused | self._is_right(m, reads.o_oldest),
            ~self.bvalid | (self.bresp == Mux(known, _OKAY, _SLVERR)),
            Cat(self.o_clear, self.o_reset) == commands,
        ]
        m.d.comb += self.o_kept.eq(Cat(rules).all())
        happens = Cat(~self.arready, ~self.awready, ~self.wready, read_refused, write_refused, commands.all())
        happened = Signal(len(happens))
        m.d.sync += happened.eq(happened | happens)
        m.d.comb += self.o_covered.eq(happened.all())
        return m

    def _follow(
        self,
        m: Module,
        channel: str,
        answer: str,
        request: Value,
        held: Callable[[Value], Value] = lambda request: request,
    ) -> tuple[Any, Value, Value, Value]:
        """The open requests of a channel, and the rules that the registers have as many and hold the last one."""
        valid, ready = getattr(self, f"{channel}valid"), getattr(self, f"{channel}ready")
        answered, taken = getattr(self, f"{answer}valid"), getattr(self, f"{answer}ready")
        m.submodules[channel] = open_ = Requests(len(request))
        m.d.comb += [
            open_.i_taken.eq(valid & ready),
            open_.i_request.eq(request),
            open_.i_answered.eq(answered & taken),
        ]
        return (
            open_,
            ~open_.o_wrong,
            open_.o_count == answered + ~ready,
            ready | (held(Mux(answered, open_.o_second, open_.o_oldest)) == self.registers.held[channel]),
        )

    def _refuse(self, m: Module, channel: str, answer: Value) -> tuple[Value, Value]:
        """Whether an answer was refused in the cycle before, and the rule that it then stays."""
        valid, ready = getattr(self, f"{channel}valid"), getattr(self, f"{channel}ready")
        refused = Signal(name=f"{channel}_refused")
        before = Signal.like(answer, name=f"{channel}_before")
        m.d.sync += [refused.eq(valid & ~ready), before.eq(answer)]
        return refused, ~refused | (valid & (answer == before))

    def _is_right(self, m: Module, address: Value) -> Value:
        """The rule that data and response are those of an address in the cycle before."""
        config = self.registers.config
        numbers = re.split(r"[^0-9]+", version("openmxu"))[:3]
        holds: dict[Register, Value] = {
            Register.ID: Const(IDENTITY),
            Register.SIZE: Cat(Const(config.rows, 16), Const(config.columns, 16)),
            Register.FORMAT: Cat(
                Const(config.stages, 4),
                Const(config.operand.exponent_width, 4),
                config.subnormals == "ieee",
                config.splitter,
                Const(config.operand.fraction_width, 5),
                not config.operand.has_infinity,
                Const(config.source.width, 8),
                Const(config.result.width, 8),
            ),
            Register.DEPTH: Const(config.depth),
            Register.CONTROL: Const(0),
            Register.LATENCY: Const(config.latency),
            Register.SHORTEST_TILE: Const(config.shortest_tile),
            Register.ACCUMULATE: Cat(
                Const(0, 4),
                Const(FP32.exponent_width, 6),
                Const(FP32.fraction_width, 6),
                Const({1: 0, 2: 1, 4: 2, 8: 3}[config.terms], 2),
            ),
            Register.VERSION: Cat(Const(int(number), 8) for number in reversed(numbers)),
        }
        for name in (*COUNTERS, "error"):
            holds[Register[name.upper()]] = before = Signal.like(getattr(self, f"i_{name}"), name=f"{name}_before")
            m.d.sync += before.eq(getattr(self, f"i_{name}"))
        right = Signal()
        with m.Switch(address):
            for register, value in holds.items():
                with m.Case(register):
                    m.d.comb += right.eq((self.rdata == value) & (self.rresp == _OKAY))
            with m.Default():
                m.d.comb += right.eq((self.rdata == 0) & (self.rresp == _SLVERR))
        return right


def _commands(word: Value) -> Value:
    """The commands in two bits of data, with the strobe of their byte."""
    return Mux(word[2], word[:2], 0)


class _Forgetful(Registers):
    """Lose a request that comes while an answer waits."""

    def _take(self, m: Module, channel: str, request: Value, used: Value) -> tuple[Value, Value]:
        return getattr(self, f"{channel}valid"), request


class _Hasty(Registers):
    """Answer a request twice if it had to wait."""

    def _take(self, m: Module, channel: str, request: Value, used: Value) -> tuple[Value, Value]:
        there, which = super()._take(m, channel, request, used)
        again = Signal(name=f"{channel}_again")
        m.d.sync += again.eq(used & ~getattr(self, f"{channel}ready"))
        return there | again, which


class _Swapped(Registers):
    """Answer another request than the one that waits."""

    def _take(self, m: Module, channel: str, request: Value, used: Value) -> tuple[Value, Value]:
        there, which = super()._take(m, channel, request, used)
        return there, Mux(getattr(self, f"{channel}valid"), request, which)


BROKEN: Mapping[str, Callable[[MxuConfig], Registers]] = {
    "forget a request that comes while an answer waits": _Forgetful,
    "answer a request twice if it had to wait": _Hasty,
    "answer another request than the one that waits": _Swapped,
}
"""Registers that break the rules, by their faults: ``o_kept`` must detect each."""
