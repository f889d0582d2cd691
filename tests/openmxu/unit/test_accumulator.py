"""One column of the accumulator bank alone: rows in any order that admission may give, any marks, any sums."""

from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.unit.accumulator import AccumulatorColumn
from openmxu_sim import golden
from openmxu_sim.operands import vectors

from ...bits import same_bits
from ..conftest import clocked

_COUNT = 400


@pytest.mark.parametrize("stages", [1, 3, 7])
@pytest.mark.parametrize("mode", ["flush", "ieee"])
def test_column(stages: int, mode: str) -> None:
    """What is read is what was added up; a row is given again when its sum is there, not before."""
    config = MxuConfig(rows=2, columns=1, stages=stages, depth=8, subnormals=mode)
    generator = np.random.default_rng(stages)
    psums = vectors.operands("fp32", _COUNT, seed=stages)[:_COUNT]
    sums: dict[int, np.uint32] = {}
    free = [0] * config.depth  # from which cycle on a row may be given
    got: list[int] = []
    expected: list[int] = []

    async def bench(ctx: Any) -> None:
        for cycle, psum in enumerate(psums):
            # The sum of the control before.
            ctx.set(dut.i_psum, int(psums[cycle - 1]))
            rows = [row for row in range(config.depth) if free[row] <= cycle]
            given = bool(rows) and generator.random() < 0.8
            row = int(generator.choice(rows)) if rows else 0
            add, clear = row in sums and bool(generator.integers(2)), bool(generator.integers(2))
            control = {"valid": given, "row": row, "add": add, "clear_nan": clear, "emit": 0, "last": 0}
            ctx.set(dut.i_control, control)
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
