"""Runs of clocked designs in Amaranth's simulator."""

from collections.abc import Callable, Coroutine
from typing import Any

from amaranth.sim import Simulator

Testbench = Callable[[Any], Coroutine[Any, Any, None]]


def run(design: Any, testbench: Testbench, background: Testbench | None = None) -> None:
    """Simulate until the testbench ends, whatever runs in the background."""
    simulator = Simulator(design)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    if background is not None:
        simulator.add_testbench(background, background=True)
    simulator.run()
