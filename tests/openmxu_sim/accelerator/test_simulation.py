"""The accelerator's RTL against the definition: random programs, wrong ones, damaged ones."""

from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring

from openmxu.accelerator import Accelerator, Stop, core
from openmxu.export.verilog import to_rtlil
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import assemble
from openmxu.spec.config import MxuConfig
from openmxu.unit.mxu import Mxu
from openmxu_sim.accelerator import run
from openmxu_sim.accelerator.simulation import SimulatedAccelerator

from ...conftest import needs_compiler, slow, thorough
from .programs import MACHINE, MOST, check, damaged, drawn, random_memories, random_program

pytestmark = needs_compiler

_RNG = np.random.default_rng


@pytest.fixture(scope="module")
def machine() -> SimulatedAccelerator:
    return SimulatedAccelerator(MACHINE)


def _check(machine: SimulatedAccelerator, seed: int, length: int = 8) -> None:
    case = drawn(seed, length)
    machine.write(case.program, case.before)
    report = machine.run(most=MOST)
    assert (report.tag, report.stop) == (case.tag, Stop.NONE), seed
    assert (machine.scratchpad() == case.after.scratchpad).all(), seed


@pytest.mark.parametrize("count", [60, slow(400), thorough(2000)])
def test_random_programs(count: int, machine: SimulatedAccelerator) -> None:
    for seed in range(count):
        _check(machine, seed)
        _check(machine, seed, 0)


@pytest.mark.parametrize(
    "config",
    [
        AcceleratorConfig(size=1, stages=1, depth=2, rows=16, weights=128),
        slow(AcceleratorConfig(size=3, stages=4, depth=8, rows=64, weights=512)),
        slow(AcceleratorConfig(size=4, stages=6, depth=4, rows=64, weights=1024)),
    ],
)
def test_biases_of_many_tiles(config: AcceleratorConfig) -> None:
    """Forty sums of one tile of one row: the next biases come as early as they can, while sums are far behind."""
    program = assemble("matmul reads=0 writes=1 weights=0 bias emit n=14:0:1\nend")
    many = replace(program[0], levels={**program[0].levels, "n": program[0].levels["n"]._replace(trips=40, other=0)})
    rng = _RNG(1)
    for first in (many, program[0]):
        check(SimulatedAccelerator(config), [first, program[1]], random_memories(rng, config))


_BACK_AND_FORTH = """
matmul reads=0 writes=32 weights=0 emit block={tiles}:1
matmul reads=96 writes=40 weights=9 exchange bias emit x={size}:1 y=2:{size}:1 block=4:{size}
matmul reads=1 writes=48 weights=3 bias emit relu x=2:1:1 kx={tiles}:1
matmul reads=90 writes=50 weights=12 exchange emit x=5:1 block=3:5
matmul reads=99 writes=52 weights=15 exchange emit x=2:1 block=2:2
pool reads=0 writes=56 x=3:1:1
matmul reads=2 writes=60 weights=5 emit x=3:1:1
end tag=3
"""


@pytest.mark.parametrize(("size", "stages"), [(3, 1), slow(1, 1), slow(4, 1), slow(5, 4)])
def test_roles_go_back_and_forth(size: int, stages: int) -> None:
    """At once, as no command waits for another: rows and weights of the one before are still on their way."""
    config = AcceleratorConfig(size=size, stages=stages, depth=16, rows=64, weights=256)
    machine = SimulatedAccelerator(config)
    for tiles in range(1, 9):
        program = assemble(_BACK_AND_FORTH.format(size=size, tiles=tiles))
        check(machine, program, random_memories(_RNG(tiles), config))


class _Stalling(wiring.Component):
    """A unit whose streams stall at random."""

    def __init__(self, config: MxuConfig, *, biased: bool) -> None:
        self._unit = Mxu(config, biased=biased)
        super().__init__(self._unit.signature)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.unit = unit = self._unit
        noise = Signal(31, init=1)
        m.d.sync += noise.eq(Cat(noise[30] ^ noise[27], noise))
        pairs = (self.weights, unit.weights), (self.activations, unit.activations), (unit.results, self.results)
        for place, (source, target) in enumerate(pairs):
            goes = Signal(name=f"goes_{place}")
            with m.If(~goes | (source.valid & target.ready)):  # what is offered stays
                m.d.sync += goes.eq(noise[10 * place])
            m.d.comb += [target.payload.eq(source.payload), target.valid.eq(source.valid & goes)]
            m.d.comb += source.ready.eq(target.ready & goes)
        m.d.comb += [unit.i_biases.eq(self.i_biases), unit.i_bias_write.eq(self.i_bias_write)]
        return m


@pytest.mark.parametrize("count", [slow(100), thorough(1000)])
def test_random_stalls(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "Mxu", _Stalling)
    rtlil = to_rtlil(Accelerator(MACHINE), name="accelerator")
    machine = SimulatedAccelerator(MACHINE, change=lambda _: rtlil)
    for seed in range(count):
        _check(machine, seed, 0 if seed % 4 == 1 else 8)


def test_every_bit_of_a_bias(machine: SimulatedAccelerator) -> None:
    """Where a product takes the upper bits away, the lower ones are the result."""
    memories = random_memories(_RNG(1))
    memories.scratchpad[0], memories.weights[:64] = [0x3F80, 0], 0
    for n in range(16):
        memories.weights[4 * n : 4 * n + 4] = [[1 << n, 0x8000 >> n], [0x3F80, 0x3F80], [0, 0], [0xBF80, 0xBF80]]
    program = assemble("matmul reads=0 writes=20 weights=0 bias emit n=16:0:1\nend")
    check(machine, program, memories)
    assert (memories.scratchpad[20:36, 0] == [(0x3400 + 0x80 * n) for n in range(16)]).all()


def test_missing_waits_are_seen(machine: SimulatedAccelerator) -> None:
    wrong = 0
    for seed in range(120):
        rng = _RNG(seed)
        program, memories = random_program(rng, 8, moves=False), random_memories(rng)
        machine.write(program, memories)
        assert machine.run(most=MOST).tag == run(program, memories)[0]
        wrong += bool((machine.scratchpad() != memories.scratchpad).any())
    assert wrong > 5


_POOL = "pool reads=0 writes=40\n"
_ADDRESSES = {"reads": (Stop.READ, 16), "writes": (Stop.WRITE, 16), "weights": (Stop.WEIGHTS, 24)}
STOPS = [
    ("load rows=0 valid=1 address=0\nend", Stop.ENGINE, 0),
    (f"{_POOL}matmul reads=0 writes=40 weights=0 add emit\nend", Stop.SUMS, 1),
    (f"{_POOL}matmul reads=0 writes=40 weights=0\nend", Stop.SUMS, 2),
    (f"matmul reads=0 writes=40 weights=0\n{_POOL}end", Stop.SUMS, 1),
    ("matmul reads=0 writes=0 weights=0\nmatmul reads=0 writes=40 weights=0 add emit x=2:1:1\nend", Stop.SUMS, 1),
    ("matmul reads=0 writes=0 weights=0 x=2:1\nmatmul reads=0 writes=40 weights=0 add emit\nend", Stop.SUMS, 1),
    (f"{_POOL}matmul reads=0 writes=40 weights=0 emit x=17:1:1\nend", Stop.TILE, 1),
    (f"{_POOL}matmul reads=60 writes=40 weights=0 emit x=5:1:1\nend", Stop.READ, 1),
    (f"{_POOL}pool reads=2 writes=40 x=5:-1:1\nend", Stop.READ, 1),
    (f"{_POOL}matmul reads=0 writes=60 weights=0 emit x=5:1:1\n{_POOL}end", Stop.WRITE, 1),
    (f"{_POOL}pool reads=0 writes=60 x=5:1:1\n{_POOL}{_POOL}end", Stop.WRITE, 1),
    (f"{_POOL}matmul reads=0 writes=40 weights=62 emit kx=2:0\nend", Stop.WEIGHTS, 1),
    (f"{_POOL}matmul reads=0 writes=40 weights=63 exchange emit kx=2:0\nend", Stop.WEIGHTS, 1),
    (f"{_POOL}matmul reads=63 writes=40 weights=0 exchange emit kx=2:1\nend", Stop.READ, 1),
    (f"{_POOL}matmul reads=0 writes=60 weights=0 exchange emit x=5:1:1\n{_POOL}end", Stop.WRITE, 1),
    (f"{_POOL}matmul reads=0 writes=40 weights=0 exchange emit n=2\nend", Stop.COMMAND, 1),
    (f"{_POOL}matmul reads=0 writes=40 weights=0 exchange\nend", Stop.COMMAND, 1),
    *(
        (f"matmul reads=0 writes=40 weights=0 emit {level}={1 + (1 << bit)}:0\nend", Stop.WEIGHTS, 0)
        for level in ("kx", "ky", "block", "n")
        for bit in (6, 8, 10, 11)
    ),
    *(
        (f"matmul emit {' '.join(f'{name}={(name == field) << bit}' for name in _ADDRESSES)}\nend", stop, 0)
        for field, (stop, width) in _ADDRESSES.items()
        for bit in range(6, width)
    ),
]


@pytest.mark.parametrize(("program", "stop", "index"), STOPS)
def test_stops(program: str, stop: Stop, index: int, machine: SimulatedAccelerator) -> None:
    """Each names its command; what commands before it wrote is there, and no other row but its own has changed."""
    memories, commands = random_memories(_RNG(1)), assemble(program)
    with pytest.raises(ValueError, match=rf"^command {index} " if stop != Stop.ENGINE else "^command 0 .*memory of 0"):
        run(commands, random_memories(_RNG(1)))
    machine.write(commands, memories)
    report = machine.run(most=MOST)
    machine.reset()
    assert (report.stop, report.index, report.tag) == (stop, index, None)
    changed = np.flatnonzero((machine.scratchpad() != memories.scratchpad).any(axis=1))
    assert {*changed.tolist()} <= {*range(40, 57), *range(60, 64)}


def test_nothing_is_written_once_it_has_stopped() -> None:
    """A command is refused in the midst of a pool: the host has the scratchpad from the next cycle on."""
    machine, memories = SimulatedAccelerator(MACHINE), random_memories(_RNG(1))
    machine.write(assemble("pool reads=0 writes=32 x=16:1:1 y=2:16:16\nload rows=0 valid=1 address=0\nend"), memories)
    assert machine.run(most=MOST).stop == Stop.ENGINE
    mark = np.array([[0x1234_5678]], np.uint32)
    machine._library.machine_write(machine._machine, 4, 0, 1, mark.ctypes.data)
    changed = np.flatnonzero((machine.scratchpad() != memories.scratchpad).any(axis=1))
    assert machine.scratchpad()[0].tolist() == [0x5678, 0x1234]
    assert 5 < len(changed) < 33


@pytest.mark.parametrize("count", [150, slow(800), thorough(2048)])
def test_damaged_programs(count: int, machine: SimulatedAccelerator) -> None:
    """A bit of a command flipped: it stops, or computes what the definition says of it."""
    stops = 0
    for number in range(count):
        seed = number * 2048 // count
        case, index, refusal = damaged(seed)
        machine.reset()  # a stopped one stays so
        machine.write(case.program, case.before)
        report = machine.run(most=MOST)
        if refusal:
            # Rows that a command overwrites before it reads them are for the definition alone to refuse.
            assert report.tag is None or "others than those read" in refusal, seed
            if report.stop != Stop.NONE:
                assert report.index == index, (seed, refusal)
                assert refusal.startswith("command ") or report.stop == Stop.COMMAND, (seed, refusal)
                stops += 1
        elif report.tag is None:
            assert report.cycles == MOST, (seed, report)  # more rows than it had time for
        elif case.tag is not None:
            assert report.tag == case.tag
            assert (machine.scratchpad() == case.after.scratchpad).all(), seed
    machine.reset()
    assert stops > count // 4


@pytest.mark.parametrize("count", [40, slow(400), thorough(2000)])
def test_resets(count: int, machine: SimulatedAccelerator) -> None:
    """In any cycle of a program; the next one computes what the definition says."""
    running = 0
    for seed in range(count):
        case = drawn(seed)
        machine.write(case.program, case.before)
        running += machine.run(most=1 + seed * 37 % 150).tag is None
        machine.reset()
        _check(machine, seed, 4)
    assert running > count // 2


def test_ends_on_the_way(machine: SimulatedAccelerator) -> None:
    """A program goes on behind an end when the host says so."""
    memories = random_memories(_RNG(1))
    program = assemble("pool reads=0 writes=40\nend tag=5\npool reads=40 writes=41\nend tag=6\n")
    machine.write(program, memories)
    assert [machine.run().tag, machine.run(2).tag] == run(program, memories) == [5, 6]
    assert (machine.scratchpad() == memories.scratchpad).all()


def test_cycles_of_a_command(machine: SimulatedAccelerator) -> None:
    unit = MACHINE.unit
    for rows, tiles, bias, flag in (
        (1, 7, 0, ""),
        (5, 3, 0, ""),
        (16, 3, 0, ""),
        (16, 4, 1, "bias"),
        (3, 2, 1, "bias"),
        (5, 3, 0, "exchange"),
        (12, 4, 0, "exchange bias"),
    ):
        machine.write(
            assemble(f"matmul reads=0 writes=20 weights=0 emit x={rows}:1:1 block={tiles}:0 {flag}\nend"),
            random_memories(_RNG(1)),
        )
        steady = (tiles - 1) * max(rows, unit.shortest_tile)
        assert machine.run(most=MOST).cycles == steady + rows + unit.latency + MACHINE.size + 24 + 2 * bias


def test_too_long_a_program(machine: SimulatedAccelerator) -> None:
    with pytest.raises(ValueError, match=r"^a program must have at most 64 commands, not 65$"):
        machine.write(assemble("end\n" * 65), random_memories(_RNG(1)))
