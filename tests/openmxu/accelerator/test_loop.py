"""Loops of counters against loops of Python."""

import itertools
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from openmxu.accelerator.loop import STEP, Loop


@pytest.mark.parametrize("levels", [1, 3, 6])
def test_any_loops(levels: int) -> None:
    """Random trips and strides, negative ones among them, with pauses; one loop after another."""
    rng = np.random.default_rng(levels)
    dut = Loop(levels)

    async def walk(ctx: Any) -> None:
        for _ in range(12):
            trips, strides = rng.integers(1, 4, levels).tolist(), rng.integers(-500, 500, levels).tolist()
            base = int(rng.integers(0, 1 << 16))
            inner = [(count - 1) * stride for count, stride in zip(trips, strides, strict=True)]
            for level in range(levels):
                step = (strides[level] - sum(inner[:level])) % (1 << STEP)
                ctx.set(dut.i_levels[level], {"trips": trips[level], "step": step})
            ctx.set(dut.i_base, base)
            ctx.set(dut.i_begin, 1)
            await ctx.tick()
            ctx.set(dut.i_begin, 0)
            for indices in itertools.product(*(range(count) for count in reversed(trips))):
                at = list(reversed(indices))
                while rng.random() < 0.3:
                    await ctx.tick()
                expected = base + sum(index * stride for index, stride in zip(at, strides, strict=True))
                assert ctx.get(dut.o_address) == expected % (1 << STEP)
                lasts = [index == count - 1 for index, count in zip(at, trips, strict=True)]
                assert ctx.get(dut.o_last) == sum(last << level for level, last in enumerate(lasts))
                ctx.set(dut.i_next, 1)
                await ctx.tick()
                ctx.set(dut.i_next, 0)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(walk)
    simulator.run()
