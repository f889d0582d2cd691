"""Helpers for tests of hardware on Amaranth's simulator."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from amaranth.sim import Simulator

Evaluate = Callable[[Any, Iterable[tuple[int, ...]]], list[int]]


@pytest.fixture
def evaluate() -> Evaluate:
    """What a rigid component (inputs ``i`` or ``i_*``, output ``o``) makes of operands given cycle by cycle."""

    def run(dut: Any, operands: Iterable[tuple[int, ...]]) -> list[int]:
        operands = list(operands)
        inputs = [getattr(dut, name) for name in dut.signature.members if name.startswith("i")]
        results: list[int] = []

        async def testbench(ctx: Any) -> None:
            for cycle in range(len(operands) + dut.latency):
                for port, value in zip(inputs, operands[min(cycle, len(operands) - 1)], strict=True):
                    ctx.set(port, int(value))
                if dut.latency:
                    (_, _, bits) = await ctx.tick().sample(dut.o)
                else:
                    await ctx.delay(1e-6)
                    bits = ctx.get(dut.o)
                if cycle >= dut.latency:
                    results.append(bits)

        simulator = Simulator(dut)
        if dut.latency:
            simulator.add_clock(1e-6)
        simulator.add_testbench(testbench)
        simulator.run()
        return results

    return run
