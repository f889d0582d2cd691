"""The tests of the whole machine are graded: machines with a mistake, which they must see."""

import ctypes
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from openmxu import yosys
from openmxu.accelerator import Accelerator
from openmxu.accelerator.bus.attached import AttachedAccelerator
from openmxu.export.verilog import to_rtlil
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_evidence.verify.mutation import Mutants, mutants
from openmxu_sim.accelerator.simulation import SimulatedAccelerator

from ...conftest import needs_compiler, thorough
from ...openmxu.accelerator.test_fetch import compiled, damaged, explore
from ...openmxu.accelerator.test_fetch import drawn as drawn_program
from . import test_bus, test_simulation
from .programs import MACHINE

pytestmark = needs_compiler

# ROMs become gates, and words of Yosys's own become Amaranth's.
_SIMPLER = """
select *.fetch
memory_collect
memory_map -rom-only
select -clear
pmuxtree
simplemap t:$logic_and t:$logic_or
opt_clean
write_rtlil /job/result
"""


def _mutants(machine: Any, count: int, *parts: str) -> Mutants:
    modules = [line[8:] for line in to_rtlil(machine).splitlines() if line.startswith("module \\")]
    drawn = mutants(machine, count, 1, without=[name for name in modules if name.partition(".")[2] not in parts])
    # The simulation has one clock.
    return replace(drawn, mistakes=tuple(line for line in drawn.mistakes if "-port CLK " not in line))


def _check(machine: SimulatedAccelerator) -> None:
    """Run the tests of the whole machine."""
    machine.reset()
    test_simulation.test_cycles_of_a_command(machine)
    test_simulation.test_every_bit_of_a_bias(machine)
    test_simulation.test_random_programs(300, machine)
    for stop in test_simulation.STOPS:
        test_simulation.test_stops(*stop, machine)
    test_simulation.test_resets(20, machine)
    test_simulation.test_damaged_programs(300, machine)


def _open(drawn: Mutants, unseen: Iterable[int]) -> list[str]:
    """Mistakes that nothing has seen, but for those that are proven to be none in their part, from any state.

    Left are some in bits that no command has, in states that are never reached, or in high bits of an index.
    """
    tops = {number: re.findall(r" at (\S+) ", drawn.describe(number))[0] for number in unseen}
    return [
        drawn.describe(number)
        for number, top in tops.items()
        if not replace(drawn, top=top, without=()).is_equivalent(number)
    ]


@pytest.mark.parametrize(("count", "programs"), [thorough(40, 12)])
def test_mistakes_of_fetch(count: int, programs: int) -> None:
    """Seen in its exploration."""
    drawn = _mutants(Accelerator(MACHINE), count, "fetch")
    library = compiled(yosys.produce(f"{drawn.script}{_SIMPLER}", drawn.rtlil), "accelerator.fetch")
    chosen = ctypes.c_uint32.in_dll(library, "mutant")
    unseen = []
    cases = [*map(drawn_program, range(programs)), *damaged()]
    for chosen.value in range(len(drawn.mistakes) + 1):
        with suppress(AssertionError):
            for case in cases:
                explore(library, case)
            unseen.append(chosen.value)
    assert unseen[0] == 0, "the design itself is refused"
    assert len(_open(drawn, unseen[1:])) <= count // 10


@pytest.mark.parametrize("count", [thorough(40)])
def test_mistakes_of_engines(count: int) -> None:
    """Seen by the tests of the whole machine."""
    drawn = _mutants(Accelerator(MACHINE), count, "feeder", "writer", "weights", "pool")
    assert len(_unseen(drawn, MACHINE, _check)) <= count // 10


@pytest.mark.parametrize("count", [thorough(40)])
def test_mistakes_of_movers(count: int) -> None:
    """Seen by the tests of the machine on its bus."""
    config = replace(MACHINE, beat=32)
    parts = [f"{mover}{part}" for mover in ("loader", "storer") for part in ("", ".bursts")]
    parts = ["master", *(f"accelerator.{part}" for part in ("scratchpad", *parts))]
    drawn = _mutants(AttachedAccelerator(config), count, *parts)
    assert len(_unseen(drawn, config, _check_bus)) <= count // 10


def _unseen(drawn: Mutants, config: AcceleratorConfig, check: Callable[[SimulatedAccelerator], None]) -> list[str]:
    rtlil = yosys.produce(f"{drawn.script}{_SIMPLER}", drawn.rtlil)
    machine = SimulatedAccelerator(config, change=lambda _: rtlil)
    unseen = []
    for number in range(len(drawn.mistakes) + 1):
        machine._library.machine_choose(machine._machine, number)
        with suppress(AssertionError):
            check(machine)
            unseen.append(number)
    assert unseen[0] == 0, "the design itself is refused"
    return _open(drawn, unseen[1:])


def _check_bus(machine: SimulatedAccelerator) -> None:
    test_bus.test_random_programs(60, machine)
    test_bus.test_bursts(machine)
    test_bus.test_every_bit_of_an_address(machine)
    test_bus.test_every_bit_of_a_count(machine)
    for outside in test_bus.OUTSIDE:
        test_bus.test_every_bit_of_a_row(*outside, machine)
    for stop in test_bus.STOPS:
        test_bus.test_stops(*stop, machine)
    test_bus.test_damaged_programs(60, machine)
    test_bus.test_resets(10, machine)
    test_bus.test_faults_of_the_bus(60, machine)
    for fault in test_bus.WRONG:
        test_bus.test_a_wrong_beat_is_not_written(fault, machine)
    test_bus.test_answers_that_come_late(machine)
    test_bus.test_nothing_is_requested_once_it_has_stopped(machine)
