"""Components in Amaranth's simulator."""

from collections.abc import Callable
from typing import Any

from amaranth.sim import Simulator


def clocked(dut: Any, testbench: Callable[[Any], Any], background: Callable[[Any], Any] | None = None) -> None:
    """Run a test bench beside a component, with a clock if it has one, until it ends, whatever is in the background."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-6, if_exists=True)
    simulator.add_testbench(testbench)
    if background is not None:
        simulator.add_testbench(background, background=True)
    simulator.run()
