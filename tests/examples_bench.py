"""Test bench of docs/examples/square.v: squares of random matrices, one after the other."""

from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from openmxu_sim import golden
from openmxu_sim.cosim.clocking import cycle, start_clock, within
from openmxu_sim.cosim.scoreboard import Scoreboard
from openmxu_sim.cosim.words import pack
from openmxu_sim.operands import vectors

SEED = 3
COUNT = 96


@cocotb.test()
async def squares(dut: Any) -> None:
    """Bit for bit, with results of every sort; ``x`` and ``start`` are not looked at while it works."""
    generator = np.random.default_rng(SEED)
    matrices = vectors.matrix((COUNT, 4), "fp32", SEED)
    # Infinities, NaNs, zeros and subnormal numbers, one of them in every fourth matrix.
    specials = generator.choice(vectors.corners("fp32", ties=False), size=COUNT // 4)
    matrices[::4][np.arange(COUNT // 4), generator.integers(4, size=COUNT // 4)] = specials
    values = matrices.view(np.float32).reshape(COUNT, 2, 2)
    products = np.array([golden.to_bits(golden.matmul(x, x, rows=2)) for x in values]).reshape(COUNT, 4)
    results = products.view(np.float32)
    assert np.isnan(results).any()
    assert np.isinf(results).any()
    assert np.count_nonzero(np.isfinite(results) & (results != 0)) > results.size // 2

    scoreboard = Scoreboard("y", "fp32", lanes=4, operand="fp32", seed=SEED)
    dut.start.value = dut.x.value = 0
    await start_clock(dut)

    async def done() -> None:
        await RisingEdge(dut.clk)
        while not int(dut.done.value):
            await RisingEdge(dut.clk)

    for words, x, y in zip(matrices.tolist(), pack(matrices, 32), pack(products, 32), strict=True):
        dut.start.value = 1
        dut.x.value = x
        await RisingEdge(dut.clk)
        dut.x.value = x ^ (1 << 128) - 1
        await RisingEdge(dut.clk)
        assert (int(dut.busy.value), int(dut.done.value)) == (1, 0)
        dut.start.value = 0
        await within(100, done(), "done")  # several times as many cycles as it takes
        assert int(dut.error.value) == 0, f"error {int(dut.error.value)}"
        scoreboard.expect(y, [words] * 4)
        scoreboard.receive(int(dut.y.value), cycle())
        for _ in range(generator.integers(4)):
            await RisingEdge(dut.clk)
            assert (int(dut.busy.value), int(dut.done.value), int(dut.y.value)) == (0, 1, y)
