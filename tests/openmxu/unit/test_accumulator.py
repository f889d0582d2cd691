"""The accumulator bank: one column alone, with rows in any order, any marks and sums; and where beats go in it."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import SUBNORMALS
from openmxu.unit.accumulator import AccumulatorColumn
from openmxu.unit.admission import Admission
from openmxu_sim import golden
from openmxu_sim.operands import vectors

from ...bits import same_bits
from ...clocked import clocked
from ...conftest import each_once

_COUNT = 400


@pytest.mark.parametrize(("stages", "mode"), each_once([7, 1, 3], SUBNORMALS))
def test_column(stages: int, mode: str) -> None:
    """What is read was added up in the order given; a row is given again when its sum is there, not before."""
    config = MxuConfig(rows=2, columns=1, stages=stages, depth=8, subnormals=mode)
    generator = np.random.default_rng(stages)
    psums = vectors.operands("fp32", _COUNT, seed=stages)[:_COUNT]
    sums: dict[int, np.uint32] = {}
    free = [0] * config.depth  # from which cycle on a row may be given
    got: list[int] = []
    expected: list[int] = []

    async def bench(ctx: Any) -> None:
        for cycle, psum in enumerate(psums):
            ctx.set(dut.i_psum, int(psums[cycle - 1]))  # of the control before
            rows = [row for row in range(config.depth) if free[row] <= cycle]
            given = bool(rows) and generator.random() < 0.8
            row = int(generator.choice(rows)) if rows else 0
            add, clear = row in sums and bool(generator.integers(2)), bool(generator.integers(2))
            ctx.set(dut.i_control, {"valid": given, "row": row, "add": add, "clear_nan": clear, "emit": 0, "last": 0})
            readable = [each for each in sums if free[each] <= cycle]
            read = int(generator.choice(readable)) if readable and generator.random() < 0.5 else None
            ctx.set(dut.i_fetch, read is not None)
            if read is not None:
                ctx.set(dut.i_row, read)
                expected.append(int(sums[read]))
            if given:
                old = sums[row] if add else np.uint32(0x80000000)
                if add and clear and int(old) & 0x7FFFFFFF > 0x7F800000:
                    old = np.uint32(0)
                sums[row] = golden.add(old, psum, subnormals=mode)
                free[row] = cycle + config.row_latency
            await ctx.tick()
            if read is not None:
                got.append(ctx.get(dut.o_data))

    dut = AccumulatorColumn(config)
    clocked(dut, bench)
    assert len(got) > _COUNT // 4
    same_bits(np.array(got, np.uint32), np.array(expected, np.uint32), note=f"{config}, seed {stages}")


_DEPTH = 4


def _places(beats: Iterable[tuple[int, int, int]]) -> Iterator[int]:
    """The place in the bank of each beat, of which ``first``, ``last`` and ``emit`` are given."""
    head = 0  # the first place of the sums that are being built
    place: int | None = None  # of the beat before, unless it was emitted; none after a tile's end
    emitted = False
    for first, last, emit in beats:
        if emit:
            yield head
            head = (head + 1) % _DEPTH
        else:
            place = 0 if first or place is None else 1 if emitted else place + 1
            yield (head + place) % _DEPTH
        place, emitted = (None if last else place or 0), bool(emit)


def test_all_marks_in_all_orders() -> None:
    """Of four beats; one behind the other, so that each order follows on many others."""
    beats = [beat for order in itertools.product(itertools.product((0, 1), repeat=3), repeat=4) for beat in order]
    dut = Admission(MxuConfig(rows=1, columns=1, depth=_DEPTH))
    found: list[int] = []

    async def bench(ctx: Any) -> None:
        ctx.set(dut.i_weights, 1)
        ctx.set(dut.i_activations, 1)
        for first, last, emit in beats:
            for mark, value in (("first", first), ("last", last), ("emit", emit)):
                ctx.set(getattr(dut, f"i_{mark}"), value)
            taken = False
            while not taken:
                go = ctx.get(dut.o_go)
                if go:
                    found.append(ctx.get(dut.o_control.row))
                taken = ctx.get(dut.o_activations_ready)
                ctx.set(dut.i_freed, go & ctx.get(dut.o_control.emit))  # the bank reads each result at once
                await ctx.tick()

    clocked(dut, bench)
    assert found == list(_places(beats))[: len(found)]
    assert len(found) >= len(beats) - 1
