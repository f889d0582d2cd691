"""Components in Amaranth's simulator."""

from collections.abc import Callable, Iterable
from typing import Any

from amaranth.hdl import Cat
from amaranth.sim import Simulator


def give(ctx: Any, ports: Iterable[Any], words: Iterable[int]) -> None:
    """Set ports, all at once: the simulator settles after each change, which is what takes its time."""
    ports, value, low = list(ports), 0, 0
    for port, word in zip(ports, words, strict=True):
        value, low = value | int(word) << low, low + len(port)
    ctx.set(Cat(*ports), value)


def clocked(dut: Any, testbench: Callable[[Any], Any], background: Callable[[Any], Any] | None = None) -> None:
    """Run a test bench beside a component, with a clock if it has one, until it ends, whatever is in the background."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-6, if_exists=True)
    simulator.add_testbench(testbench)
    if background is not None:
        simulator.add_testbench(background, background=True)
    simulator.run()
