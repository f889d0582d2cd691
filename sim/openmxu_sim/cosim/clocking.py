"""Clock, reset, and a limit on how long a test bench waits.

Test benches look at signals right at a rising edge, where they still show the cycle that it ends, and then
set them for the cycle that it begins.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

from cocotb.clock import Clock
from cocotb.simtime import get_sim_time
from cocotb.triggers import RisingEdge, SimTimeoutError, Timer, with_timeout

PERIOD = 10
"""Nanoseconds of a clock cycle."""

T = TypeVar("T")


async def start_clock(dut: Any, *, cycles: int = 2) -> None:
    """Start ``clk`` and reset; inputs should have been given their idle values.

    Pipelines have registers that no reset clears: ``cycles`` is long enough if it fills them.
    """
    # An edge at the very beginning would come before the idle inputs have gone through the logic, and
    # simulators that know undefined values would keep them in what is neither reset nor loaded.
    dut.clk.value = 0
    await Timer(PERIOD, unit="ns")
    Clock(dut.clk, PERIOD, unit="ns").start()
    await reset(dut, cycles=cycles)


async def reset(dut: Any, *, cycles: int = 2) -> None:
    """Hold ``rst`` for some cycles."""
    dut.rst.value = 1
    for _ in range(cycles):
        await RisingEdge(dut.clk)
    dut.rst.value = 0


def cycle() -> int:
    """Return the number of cycles since the simulation began."""
    return int(get_sim_time("ns")) // PERIOD


async def within(cycles: int, coroutine: Coroutine[Any, Any, T], what: str) -> T:
    """Return the result of ``coroutine``; raise a TimeoutError after so many cycles."""
    try:
        result: T = await with_timeout(coroutine, cycles * PERIOD, "ns")
    except SimTimeoutError:
        raise TimeoutError(f"{what}: not within {cycles} cycles, up to cycle {cycle()}") from None
    return result
