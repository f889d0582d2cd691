"""Components without handshake: a set of operands in every cycle, a set of results in every cycle."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cocotb.triggers import RisingEdge, Timer

from openmxu_sim.cosim.clocking import PERIOD


async def play(
    dut: Any, inputs: Mapping[str, Sequence[int]], outputs: Iterable[str], *, more: int = 0
) -> dict[str, list[int]]:
    """Set inputs cycle by cycle; returns what outputs show."""
    edge = RisingEdge(dut.clk) if hasattr(dut, "clk") else Timer(PERIOD, unit="ns")
    drivers = [(getattr(dut, name), iter(values)) for name, values in inputs.items()]
    monitors = [(getattr(dut, name), list[int]()) for name in outputs]
    for _ in range(len(next(iter(inputs.values()))) + more):
        for port, values in drivers:
            value = next(values, None)
            if value is not None:
                port.value = value
        await edge
        for port, seen in monitors:
            seen.append(int(port.value))
    return dict(zip(outputs, (seen for _, seen in monitors), strict=True))
