"""The parts that are vector code, and all that goes between them, beside the netlist of the whole accelerator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openmxu.accelerator import Stop
from openmxu.runtime import native
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import Command, assemble
from openmxu_sim.accelerator import Memories, run, simulation
from openmxu_sim.accelerator.simulation import SimulatedAccelerator

from ...conftest import needs_compiler, slow
from .programs import random_memories

pytestmark = needs_compiler

_PROGRAM = """
matmul reads=0 writes=32 weights=0 bias emit n={tiles}:0:1 block=2:1
matmul reads=1 writes=48 weights=3 add=0 x=2:1
matmul reads=3 writes=50 weights=9 add emit relu x=2:1:1
matmul reads=40 writes=56 weights=40 exchange bias emit x=3:1 block=2:3
pool reads=0 writes=60 x=2:2:1 kx=2:1
end tag=3
"""


def _case(config: AcceleratorConfig, tiles: int) -> tuple[list[Command], Memories]:
    return assemble(_PROGRAM.format(tiles=tiles)), random_memories(np.random.default_rng(tiles), config)


def _wrong(machine: SimulatedAccelerator) -> int:
    """Programs, each begun once before and reset on its way, after which a word is not the definition's."""
    wrong = 0
    for tiles in range(1, 7):
        program, memories = _case(machine.config, tiles)
        for most in (37 * tiles, 20_000):
            machine.write(program, memories)
            report = machine.run(most=most)
            if most < 20_000:
                machine.reset()
        tags = run(program, memories)
        wrong += [report.tag] != tags or bool((machine.scratchpad() != memories.scratchpad).any())
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize(("size", "stages"), [(1, 1), (2, 2), (3, 2), (4, 4)])
def test_cycles_of_the_whole_netlist(size: int, stages: int) -> None:
    config = AcceleratorConfig(size=size, stages=stages, depth=8, rows=64, weights=1024)
    reports = []
    for machine in (SimulatedAccelerator(config), SimulatedAccelerator(config, change=str)):
        for tiles in (1, 4):
            machine.write(*_case(config, tiles))
            reports.append(machine.run())
    assert reports[:2] == reports[2:]
    assert reports[0].stop == Stop.NONE


@pytest.mark.parametrize(("size", "stages"), [(2, 2), slow(9, 6), slow(17, 1), slow(24, 4), slow(33, 2)])
def test_words(size: int, stages: int) -> None:
    """Sizes on both sides of the lanes of a vector."""
    assert not _wrong(SimulatedAccelerator(AcceleratorConfig(size, stages, depth=8, rows=64, weights=1024)))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        slow("in.i_psum[0] = top.o_psum[0]", "in.i_psum[0] = everywhere(0)"),
        slow("shifted(left.o_swap[0], here.o_swap[0])", "left.o_swap[0]"),
        slow("for (int r = ELEMENT_ROWS; r--;) {  /*", "for (int r = 0; r < ELEMENT_ROWS; r++) {  /*"),
        slow("for (int j = COLUMN_BLOCKS; j--;)", "for (int j = 0; j < COLUMN_BLOCKS; j++)"),
        slow("step_parts(p, out, ~0u)", "step_parts(p, out, 0)"),
    ],
)
def test_parts_that_are_wrong(right: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = AcceleratorConfig(size=17, stages=1, depth=8, rows=64, weights=1024)
    read: Callable[[str, str], str] = native.resource

    def changed(package: str, name: str) -> Any:
        text = read(package, name)
        assert name != "vector_parts.c" or right in text
        return text.replace(right, wrong) if name == "vector_parts.c" else text

    monkeypatch.setattr(native, "resource", changed)
    simulation._library.cache_clear()
    broken = SimulatedAccelerator(config)
    simulation._library.cache_clear()
    assert _wrong(broken)
