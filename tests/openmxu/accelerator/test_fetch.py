"""Every state that the fetch of commands comes to, whatever its engines do and whenever they do it."""

import ctypes
from collections import namedtuple
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from amaranth.hdl import Cat

from openmxu.accelerator import Stop
from openmxu.accelerator.fetch import Fetch
from openmxu.export.verilog import to_rtlil
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import ANY, KINDS, WORDS, Command, assemble
from openmxu_sim.netlist.circuit import Circuit
from openmxu_sim.netlist.code import Code
from openmxu_sim.netlist.native import compile_c

from ...clocked import clocked
from ...conftest import needs_compiler, thorough

pytestmark = needs_compiler

CONFIG = AcceleratorConfig(size=2, stages=1, depth=16, rows=64, weights=64, program=9 * WORDS)
_GAP = 19  # cycles, at most, until a command that waits for nothing begins

_C = """
uint32_t mutant;
void first(struct fetch_state *s) { fetch_begin(s); }
size_t size(void) { return sizeof(struct fetch_state); }
void next(const struct fetch_state *from, int count, uint32_t (*in)[INPUTS], struct fetch_state *to,
          uint32_t (*seen)[9 + 16]) {
  for (int n = 0; n < count; n++, to++, in++, seen++) {
    struct fetch_in i = { GIVEN };
    struct fetch_out o, after;
    *to = *from;
    fetch_step(to, &i, &o);
    fetch_look(to, &i, &after);
    uint32_t bits[] = { o.o_begin[0] & 1, o.o_begin_weights[0] & 1, o.o_address[0], after.o_running[0] & 1,
                        after.o_exchanged[0] & 1, after.o_ended[0] & 1, after.o_tag[0], after.o_stop[0],
                        after.o_index[0] };
    memcpy(*seen, bits, sizeof bits);
    memcpy(*seen + 9, o.o_words, sizeof o.o_words);
  }
}
"""
_Inputs = namedtuple(
    "_Inputs", "i_start i_program i_word i_ready i_ready_weights i_drained i_finished i_stop rst", defaults=[0] * 9
)
# The last six a cycle later.
_Outputs = namedtuple("_Outputs", "begin begin_weights address running exchanged ended tag stop index")


class _Progress(NamedTuple):
    """What has happened; indices count from the first command."""

    phase: str = "idle"
    base: int = 0  # the command at which the host began
    begun: int = 0  # the command that is next
    read: bool = False  # whether the weights of that one are begun
    unfinished: int = 0
    reader: int = -1  # the command whose weights were begun last
    exchanged: int = 0  # whether the last one that began has exchanged roles
    since: int = 0  # cycles since the last beginning, _GAP at most
    shown: tuple[int, int, int, int] = (0, 0, 0, 0)  # ended, tag, stop, index


class _Case(NamedTuple):
    program: Sequence[Command]
    words: Sequence[Sequence[int]]
    wrong: int = -1  # a command that is to be refused
    why: Stop = Stop.NONE
    at: int = 0  # the address of the first word


def compiled(rtlil: str, top: str) -> ctypes.CDLL:
    """The fetch as a function from a state and many inputs to as many states."""
    circuit = Circuit(rtlil, top, resets=True)
    code = Code(circuit, "fetch", lanes=False)
    code.function("step", list(circuit.outputs), inputs=circuit.inputs, clock=True)
    mutant = [name for name in circuit.inputs if name == "mutant"]
    code.function("look", ["o_running", "o_exchanged", "o_ended", "o_tag", "o_stop", "o_index"], inputs=mutant)
    minus = {name: "-" * (circuit.inputs[name] == 1) for name in _Inputs._fields}
    given = ", ".join(f".{name} = {{ {minus[name]}(*in)[{at}] }}" for at, name in enumerate(_Inputs._fields))
    given += ", .mutant = { mutant }" * len(mutant)
    driver = _C.replace("INPUTS", str(len(_Inputs._fields))).replace("GIVEN", given)
    return compile_c(f"#include <stdint.h>\n#include <string.h>\n{code.text()}\n{driver}")


def _follow(case: _Case, now: _Progress, inputs: _Inputs, seen: _Outputs) -> _Progress:
    """What a cycle must do, by the meaning of the commands."""
    command, refused = case.program[min(now.begun, len(case.program) - 1)], now.begun == case.wrong
    opcode = command.opcode if now.phase == "running" and not refused else "none"
    limit = command.values["computes"]
    exchange = command.values.get("exchange", 0)
    may_begin = opcode in ("matmul", "pool") and bool(inputs.i_ready) and (limit == ANY or now.unfinished <= limit)
    may_begin &= bool(inputs.i_drained) or not (exchange or now.exchanged)
    may_read = opcode == "matmul" and not now.read and bool(inputs.i_ready_weights)
    may_read &= may_begin or not (exchange or now.exchanged)  # the memory of weights is not the feeder's
    may_begin &= opcode == "pool" or now.read or may_read
    leaves = now.phase == "running" and not (seen.running or inputs.i_stop)
    does = seen.begin_weights, seen.begin, leaves
    may = may_read, may_begin, refused or (opcode == "end" and not now.unfinished)
    assert all(one <= other for one, other in zip(does, may, strict=True)), f"{does} where {may} may be"
    if now.phase == "running" and now.since == _GAP:
        assert does == (*may[:2], may[2] and not inputs.i_stop), f"{does} where {may} must be"
    after = now._replace(
        begun=now.begun + seen.begin,
        read=bool(now.read or seen.begin_weights) and not seen.begin,
        unfinished=now.unfinished + seen.begin - inputs.i_finished,
        reader=now.begun if seen.begin_weights else now.reader,
        exchanged=exchange if seen.begin else now.exchanged,
        since=0 if seen.begin else min(now.since + 1, _GAP),
    )
    if inputs.i_stop and now.phase != "stopped":
        oldest = now.begun - now.unfinished
        at = {Stop.WRITE: oldest, Stop.WEIGHTS: now.reader}.get(Stop(inputs.i_stop), now.begun - 1)
        return after._replace(phase="stopped", shown=(now.shown[0], now.shown[1], inputs.i_stop, at - now.base))
    if leaves and refused:
        return after._replace(phase="stopped", shown=(0, now.shown[1], case.why, now.begun - now.base))
    if leaves:
        shown = (1, command.values["tag"], 0, now.begun - now.base)
        return after._replace(phase="idle", begun=now.begun + 1, shown=shown)
    if now.phase == "idle" and inputs.i_start:
        return after._replace(phase="running", base=now.begun, since=0, shown=(0, now.shown[1], 0, 0))
    return after if now.phase != "running" else after._replace(shown=(*now.shown[:3], after.begun - now.base))


def _choices(case: _Case, now: _Progress, number: int, word: int) -> Iterator[_Inputs]:
    """All that may come in a cycle; first what leads to the end soonest. Of stops and starts one, by the number."""
    more = now.begun < len(case.program)
    start = int(now.phase == "stopped" or (now.phase == "idle" and more))
    program = case.at + now.begun * WORDS * more
    finishes = (1, 0) if now.unfinished else (0,)
    readies = ((1, 1, 1), (0, 0, 0)) if now.phase == "stopped" else product((1, 0), repeat=3)
    for ready, finished in product(readies, finishes):
        yield _Inputs(start, program, word, *ready, finished)
    yield _Inputs(i_word=word, rst=1)
    if now.phase == "idle":
        yield _Inputs(0, program, word)
    if now.phase != "running":
        return
    yield _Inputs(1, WORDS, word)  # a start while it runs
    stops = [_Inputs(0, 0, word, i_ready_weights=1, i_stop=stop) for stop in (Stop.SUMS, Stop.TILE, Stop.READ)]
    stops += [_Inputs(0, 0, word, i_ready=1, i_ready_weights=1, i_stop=Stop.WRITE)]
    stops = stops if now.unfinished else []
    if now.read or now.base <= now.begun - now.unfinished <= now.reader:
        finished = int(now.begun - now.unfinished < now.reader)
        stops += [_Inputs(0, 0, word, i_ready=1, i_finished=finished, i_stop=Stop.WEIGHTS)]
    if stops:
        yield stops[number % len(stops)]


State = tuple[bytes, int, _Progress]


def explore(library: ctypes.CDLL, case: _Case) -> int:
    """Visit all states of a program, and return their number."""
    initial = ctypes.create_string_buffer(library.size())
    library.first(initial)
    first: State = (initial.raw, 0, _Progress())
    nearer: dict[State, State] = {}
    done: set[State] = set()
    seen, todo = {first}, [first]
    while todo:
        state = todo.pop()
        now = state[2]
        if now.phase == "stopped" or (now.phase == "idle" and now.begun == len(case.program)):
            done.add(state)
        choices = [*_choices(case, now, len(seen), _word(case, state[1]))]
        outcomes = _outcomes(library, case, state, choices, first)
        nearer[state] = outcomes[0]
        fresh = {*outcomes} - seen
        seen |= fresh
        todo += fresh
    for start in seen:
        path, state = {}, start
        while state not in done:
            assert state not in path, f"nothing goes on: {state[2]}"
            path[state], state = None, nearer[state]
        done |= path.keys()
    return len(seen)


def _word(case: _Case, address: int) -> int:
    command, word = divmod(address - case.at, WORDS)
    return case.words[command][word] if 0 <= command < len(case.words) else 0


def _outcomes(library: ctypes.CDLL, case: _Case, state: State, choices: Sequence[_Inputs], first: State) -> list[State]:
    size, now = len(state[0]), state[2]
    found = (ctypes.c_uint32 * 25 * len(choices))()
    states = ctypes.create_string_buffer(size * len(choices))
    table = (ctypes.c_uint32 * len(_Inputs._fields) * len(choices))(*choices)
    library.next(state[0], len(choices), table, states, found)
    after = []
    for number, inputs in enumerate(choices):
        left = states.raw[size * number : size * (number + 1)]
        outputs = _Outputs(*found[number][:9])
        if inputs.rst:
            assert left == first[0], "a reset leaves something"
            continue
        progress = _follow(case, now, inputs, outputs)
        if outputs.begin or outputs.begin_weights:
            assert tuple(found[number][9:]) == tuple(case.words[now.begun]), "another command begins"
        assert outputs.running == (progress.phase == "running")
        assert outputs[4:] == (progress.exchanged, *progress.shown), (inputs, outputs, progress)
        after.append((left, outputs.address, progress))
    return after


_WRONG = {
    Stop.COMMAND: (
        *("matmul add bias emit", "matmul relu", "matmul clip", "matmul n=2:0", "matmul add emit n=2:0:1"),
        *("matmul exchange", "matmul exchange emit n=2:0", "matmul exchange emit bias n=2:0"),
        f"matmul emit clip high={0x7F81}",
    ),
    Stop.ENGINE: ("load rows=0 valid=1 address=0", "store rows=0 valid=1 address=0"),
    Stop.SUMS: ("matmul add emit", "pool", "end"),
}


def drawn(seed: int) -> _Case:
    """Six commands or seven with any waits, and ends among them; in every second program one is wrong."""
    rng = np.random.default_rng(seed)
    lines = []
    while len(lines) < 6:
        wait = f"computes={rng.choice([0, 1, 2, 3, ANY])} tag={rng.integers(1 << 16)}"
        texts = ["pool", "pool", "matmul bias emit", "matmul exchange emit", "matmul|matmul add emit", "end"]
        lines += str(rng.choice(texts)).split("|")
        lines[-1] += f" {wait}"
    case = _assembled([*lines, "end tag=9"])
    case = case._replace(words=[_filled(rng, words) for words in case.words], at=seed % WORDS)
    if seed % 2:
        return case
    wrong, why = int(rng.integers(6)), Stop(int(rng.integers(Stop.COMMAND, Stop.SUMS + 1)))
    after_sums = wrong > 0 and not case.program[wrong - 1].values.get("emit", 1)
    texts = [text for text in _WRONG[why] if why != Stop.SUMS or after_sums != text.startswith("matmul")]
    words = [*case.words]
    words[wrong] = _assembled([str(rng.choice(texts))]).words[0]
    if why == Stop.ENGINE:
        words[wrong] = _filled(rng, words[wrong])
    if why == Stop.COMMAND and rng.integers(2):
        words[wrong] = [*_assembled(["pool"]).words[0]]
        # No opcode; no trips; a bit that no command has.
        word, value = ((0, int(rng.choice([0, 6, 8, 10, 11, 15]))), (5, 0), (14, 1 << int(rng.integers(32))))[seed % 3]
        words[wrong][word] = value
    return case._replace(words=words, wrong=wrong, why=why)


def damaged() -> Iterator[_Case]:
    """Commands with one bit that none of their kind has."""
    for text, word, bit in product(("pool", "matmul emit", "end"), range(WORDS), range(32)):
        case = _assembled([text, "end"])
        words = [*case.words[0]]
        words[word] ^= 1 << bit
        with suppress(ValueError):
            Command.of_words(words)
            continue
        if words[0] & 15 == case.words[0][0] & 15 and not case.words[0][word] >> bit & 1:
            yield case._replace(words=[words, case.words[1]], wrong=0, why=Stop.COMMAND)


def _filled(rng: np.random.Generator, words: Sequence[int]) -> Sequence[int]:
    """Any bits where all are right: waits for other engines, addresses, steps, trips."""
    full, opcode = 0xFFFFFFFF, words[0] & 15
    masks = {1: 0xF0F}
    if opcode in (KINDS["matmul"].code, KINDS["pool"].code):
        masks |= {2: full, **dict.fromkeys(range(3, 8), full), **dict.fromkeys(range(9, 12), 0xFFFFF)}
    elif opcode != KINDS["end"].code:
        masks |= dict.fromkeys((2, 3, 4, 5, 9, 10, 11, 12), full)
    if opcode == KINDS["matmul"].code:
        masks |= {8: 0xFFFFF000, 12: 0xFFFFFF, 13: 0x3FFF}
    return [word | int(rng.integers(1 << 32)) & masks.get(at, 0) for at, word in enumerate(words)]


def _assembled(lines: Sequence[str]) -> _Case:
    needed = {"matmul": " reads=1 writes=2 weights=3", "pool": " reads=4 writes=5"}
    program = assemble("\n".join(line + needed.get(line.split()[0], "") for line in lines))
    return _Case(program, [command.words for command in program])


@pytest.mark.parametrize("count", [4, thorough(100)])
def test_every_interleaving(count: int) -> None:
    library = compiled(to_rtlil(Fetch(CONFIG), name="fetch"), "fetch")
    states = [explore(library, drawn(seed)) for seed in range(count)]
    assert sum(states) > 2000 * count
    for case in damaged():
        explore(library, case)


@pytest.mark.parametrize("size", [40, 64])
@pytest.mark.parametrize("start", [0, 1, 16, 23, 39])
def test_a_program_that_does_not_end(size: int, start: int) -> None:
    """It stops at the command that the memory does not hold wholly; word 0 does not follow the last one."""
    fetch = Fetch(replace(CONFIG, program=size))
    words = np.roll(assemble("pool reads=0 writes=32")[0].words * (-(-size // 16)), start)[:size].tolist()

    async def testbench(ctx: Any) -> None:
        ctx.set(Cat(fetch.i_ready, fetch.i_ready_weights, fetch.i_drained), 7)
        ctx.set(fetch.i_program, start)
        for cycle in range(200):
            ctx.set(fetch.i_start, not cycle)
            asked = ctx.get(fetch.o_address)
            await ctx.tick()
            ctx.set(fetch.i_word, words[asked % size])
        assert (ctx.get(fetch.o_stop), ctx.get(fetch.o_index)) == (Stop.COMMAND, (size - start) // 16)

    clocked(fetch, testbench)
