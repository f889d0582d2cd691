"""Reads commands, refuses ill-formed ones, and hands each to its engines when its waits allow.

::

    READ     16 words, each checked against the bits that its opcode has   ─▶ [ words ]
    CHECK    flags, sums that stay                                          ── wrong? ─▶ STOPPED
    WAIT     unfinished ≤ wait, engines free: o_begin                       ── end?  ─▶ IDLE, tag shown
             weights need not wait for results, but for loads: o_begin_weights, when their reader is free
"""

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from openmxu.accelerator.errors import Stop
from openmxu.accelerator.loop import TRIPS, LevelLayout
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import ANY, COMMON, KINDS, WORDS
from openmxu.spec.formats import BF16

INDEX = 16
"""Bits of a command's index, modulo 2^16."""

MOVER = wiring.Signature({"begin": Out(1), "ready": In(1), "finished": In(1)})
"""How commands of a mover begin: take the one that is there; it can, and one is."""

_COMPUTES = 4
"""Commands of the unit and the pool that may be unfinished, or be the one whose weights are read, at most."""


class _State(enum.Enum):
    IDLE = 0
    READ = 1
    CHECK = 2
    WAIT = 3
    STOPPED = 4


def bits(opcode: str) -> list[int]:
    """The bits of each word that an opcode has fields for."""
    kind = KINDS[opcode]
    words = [0] * WORDS
    words[0] = 15
    for fields in (COMMON, kind.fields, kind.trips(), kind.steps(1), kind.steps(2)):
        for place in fields.values():
            words[place.word] |= (1 << place.width) - 1 << place.low
    return words


class CommandLayout(data.FlexibleLayout):
    """The words of a command: its fields by name, ``levels`` with a step each, and the ``others``' steps."""

    def __init__(self) -> None:
        kinds, matmul = KINDS.values(), KINDS["matmul"]
        places = {name: place for kind in kinds for name, place in {**COMMON, **kind.fields}.items()}
        levels, others = data.ArrayLayout(LevelLayout(), len(matmul.levels)), data.ArrayLayout(32, len(matmul.others))
        super().__init__(
            32 * WORDS,
            {
                "opcode": data.Field(4, 0),
                **{name: data.Field(place.width, 32 * place.word + place.low) for name, place in places.items()},
                "levels": data.Field(levels, 32 * matmul.steps(1)["x"].word),
                "others": data.Field(others, 32 * matmul.steps(2)["x"].word),
            },
        )


def host_ports(config: AcceleratorConfig) -> dict[str, Any]:
    """How a host starts programs, and sees how they end."""
    return {
        "i_start": In(1),  # begin, while not o_running
        "i_program": In(range(config.program)),  # word of its memory at which the program begins
        "o_running": Out(1),
        "o_ended": Out(1),  # the command end was reached, and all before it are finished
        "o_tag": Out(16),  # of this command
        "o_index": Out(INDEX),  # the command that is read, or waits, or was begun last
        "o_stop": Out(Stop),  # why the program stopped; nothing goes on until a reset
    }


class Fetch(wiring.Component):
    """Begins the commands of a program in their order.

    Latency: a command begins some twenty cycles after the one before, or when its waits allow.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        movers = ("load", "store") if config.beat else ()
        super().__init__(
            {
                **host_ports(config),
                "o_address": Out(range(config.program)),
                "i_word": In(32),  # the word at o_address of the cycle before
                "i_ready": In(1),  # the feeder and the writer can take a command
                "i_ready_weights": In(1),  # the reader of weights can
                # Nothing is read, or stays where a memory shows it: needed where memories exchange roles, or go back.
                "i_drained": In(1),
                "i_finished": In(1),  # a command is
                "i_stop": In(Stop),  # stop now
                "i_movers": In(len(movers)),  # those that stop it
                **dict.fromkeys(movers, Out(MOVER)),
                "o_words": Out(CommandLayout()),  # the command that begins
                "o_begin": Out(1),
                "o_begin_weights": Out(1),  # weights of a matmul may be read: before it begins, or with it
                "o_exchanged": Out(1),  # memories have each other's role, from the cycle after o_begin on
            }
        )
        self._movers = {name: getattr(self, name) for name in movers}

    def elaborate(self, platform: object) -> Module:
        """Read and check one command while the engines are at those before it."""
        m = Module()
        state = Signal(_State)
        word = Signal(range(WORDS + 1))  # words that were asked for: the last but one arrives
        unfinished = {name: Signal(4, name=f"unfinished_{name}") for name in ("compute", *self._movers)}
        past = Signal()  # the last word of the memory has been asked for
        read = Signal()  # the weights of the command that waits are being read
        ahead = Signal(4)  # commands begun from the one on whose weights are being read
        refused = self._check(m, state, word)
        m.d.comb += self.o_running.eq((state != _State.IDLE) & (state != _State.STOPPED))
        m.d.sync += unfinished["compute"].eq(unfinished["compute"] + self.o_begin - self.i_finished)
        for name, mover in self._movers.items():
            m.d.sync += unfinished[name].eq(unfinished[name] + mover.begin - mover.finished)
        m.d.sync += ahead.eq(Mux(self.o_begin_weights, 0, ahead) + self.o_begin)
        with m.Switch(state):
            with m.Case(_State.IDLE), m.If(self.i_start):
                m.d.sync += [state.eq(_State.READ), self.o_ended.eq(0), self.o_index.eq(0)]
                m.d.sync += [self.o_address.eq(self.i_program), word.eq(0), past.eq(0)]
            with m.Case(_State.READ):
                m.d.sync += [word.eq(word + 1), self.o_address.eq(self.o_address + (word != WORDS))]
                with m.If(word == WORDS):
                    m.d.sync += state.eq(_State.CHECK)
                with m.Elif(past):
                    m.d.sync += [state.eq(_State.STOPPED), self.o_stop.eq(Stop.COMMAND)]
                with m.Elif(self.o_address == self.config.program - 1):
                    m.d.sync += past.eq(1)
            with m.Case(_State.CHECK):
                m.d.sync += state.eq(_State.WAIT)
                with m.If(refused != Stop.NONE):
                    m.d.sync += [state.eq(_State.STOPPED), self.o_stop.eq(refused)]
            with m.Case(_State.WAIT):
                self._begin(m, state, word, unfinished, read)
        stopped = self._stopped(m, unfinished["compute"], ahead)
        with m.If((self.i_stop != Stop.NONE) & (state != _State.STOPPED)):
            m.d.sync += [state.eq(_State.STOPPED), self.o_stop.eq(self.i_stop), self.o_index.eq(stopped)]
        return m

    def _stopped(self, m: Module, unfinished: Value, ahead: Value) -> Value:
        """Return the index of the command that stops the program."""
        # Behind the command that waits here, the feeder is at the last one, the writer at the oldest unfinished one,
        # and the reader of weights `ahead` of them back.
        back = Mux(self.i_stop == Stop.WRITE, unfinished, Mux(self.i_stop == Stop.WEIGHTS, ahead, 1))
        if not self._movers:
            return self.o_index - back  # all commands are computes
        begun = Signal(_COMPUTES * INDEX, reset_less=True)  # indices of the last computes, the last one lowest
        with m.If(self.o_begin):
            m.d.sync += begun.eq(Cat(self.o_index, begun))
        indices = Array([self.o_index, *(begun.word_select(number, INDEX) for number in range(_COMPUTES))])
        index = indices[back]
        for number, (name, mover) in enumerate(self._movers.items()):
            moves = Signal(INDEX, name=f"index_{name}", reset_less=True)
            with m.If(mover.begin):
                m.d.sync += moves.eq(self.o_index)
            index = Mux(self.i_movers[number], moves, index)
        return Mux(self.i_stop >= Stop.TIME, self.o_index, index)

    def _check(self, m: Module, state: Value, word: Value) -> Value:
        """Shift words in, check each a cycle later, and return why the command is refused when all are there."""
        arrives, words = (state == _State.READ) & (word != 0), self.o_words.as_value()
        opcode = Signal(4)
        checks = Signal()
        index = Signal(range(WORDS))
        allowed = Signal(32)
        is_level = Signal()
        was_bad, is_bad = Signal(), Signal()
        with m.Switch(opcode):
            for name, kind in KINDS.items():
                with m.Case(kind.code):
                    levels = [any(place.word == number for place in kind.trips().values()) for number in range(WORDS)]
                    m.d.comb += [allowed.eq(Array(bits(name))[index]), is_level.eq(Array(levels)[index])]
            with m.Default():
                m.d.comb += is_level.eq(1)  # none: word 0 has no trips
        m.d.sync += [checks.eq(arrives), index.eq(word - 1)]
        with m.If(arrives):
            m.d.sync += self.o_words.eq(Cat(words[32:], self.i_word))
        with m.If(arrives & (word == 1)):
            m.d.sync += opcode.eq(self.i_word)
        top = words[-32:]
        wrong = (top & ~allowed).any() | (is_level & ~top[:TRIPS].any())
        m.d.comb += is_bad.eq(wrong | (was_bad & (index != 0)))
        with m.If(checks):
            m.d.sync += was_bad.eq(is_bad)
        return self._check_fields(m, is_bad)

    def _check_fields(self, m: Module, is_bad: Value) -> Value:
        """Check what words alone do not show: flags that exclude one another, and sums that stay."""
        is_matmul, is_pool, is_end = (self.is_a(name) for name in ("matmul", "pool", "end"))
        moves = Cat(Const(0), *map(self.is_a, self._movers)).any()
        words = self.o_words
        many = words.levels[KINDS["matmul"].levels.index("n")].trips != 1
        exclusive = (
            (words.add & words.bias)
            | (~words.emit & (words.relu | words.clip))
            | ((many | words.exchange) & (words.add | ~words.emit))
            | (many & words.exchange)
            | (words.high > BF16.overflow)
        )
        left = Signal()  # sums stay
        with m.If(self.o_begin):
            m.d.sync += left.eq(is_matmul & ~words.emit)
        refused = Signal(Stop)
        with m.If(is_bad | (is_matmul & exclusive) | (moves & ((words.valid == 0) | (words.valid > self.config.size)))):
            m.d.comb += refused.eq(Stop.COMMAND)
        with m.Elif(~(is_matmul | is_pool | is_end | moves)):
            m.d.comb += refused.eq(Stop.ENGINE)
        with m.Elif(~moves & (left != (is_matmul & words.add))):
            m.d.comb += refused.eq(Stop.SUMS)
        return refused

    def _begin(self, m: Module, state: Value, word: Value, unfinished: Mapping[str, Value], read: Value) -> None:
        """Hand the command to its engines, or end the program."""
        words, without = self.o_words, ~self.is_a("matmul")
        exchange = ~without & words.exchange
        waiting = {name: (words[f"{name}s"] != ANY) & (count > words[f"{name}s"]) for name, count in unfinished.items()}
        waits, loaded = Cat(waiting.values()), ~waiting.get("load", Const(0))
        changes = exchange | self.o_exchanged
        may = ~waits.any() & self.i_ready & (~changes | self.i_drained)
        # Weights are read before the command begins, unless memories exchange roles, for which both must be drained.
        m.d.comb += self.o_begin_weights.eq(~without & ~read & self.i_ready_weights & loaded & (~changes | may))
        m.d.sync += read.eq((read | self.o_begin_weights) & ~self.o_begin)
        with m.If(self.is_a("end")), m.If(Cat(unfinished.values()) == 0):
            m.d.sync += [state.eq(_State.IDLE), self.o_ended.eq(1), self.o_tag.eq(words.tag)]
        for name, mover in self._movers.items():
            with m.Elif(self.is_a(name)):
                m.d.comb += mover.begin.eq(~waits.any() & mover.ready)
        with m.Elif(may & (without | read | self.o_begin_weights)):
            m.d.comb += self.o_begin.eq(1)
            m.d.sync += self.o_exchanged.eq(exchange)
        with m.If(Cat(self.o_begin, *(mover.begin for mover in self._movers.values())).any()):
            m.d.sync += [state.eq(_State.READ), word.eq(0), self.o_index.eq(self.o_index + 1)]

    def is_a(self, opcode: str) -> Value:
        """Whether ``o_words`` is such a command."""
        return self.o_words.opcode == KINDS[opcode].code
