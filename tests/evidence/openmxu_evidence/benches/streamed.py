"""Bench of arithmetic between streams."""

from collections.abc import Iterator
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from openmxu_evidence import benches
from openmxu_evidence.benches.operations import OPERATIONS
from openmxu_sim.cosim.clocking import start_clock, within
from openmxu_sim.cosim.scoreboard import Scoreboard
from openmxu_sim.cosim.stream import StreamSink, StreamSource, no_pauses, random_pauses

TASK = benches.Task.of_environment()
OPERATION = OPERATIONS[TASK.family.removeprefix("stream_")](TASK.component().unit)


async def run(dut: Any, source_pauses: Iterator[bool], sink_pauses: Iterator[bool]) -> tuple[StreamSource, StreamSink]:
    """Send all operands through the design, and compare with the golden model; returns both ends."""
    operands = OPERATION.operands(TASK)
    width = len(dut.i__payload) // len(operands)
    scoreboard = Scoreboard("o", OPERATION.result, operand=OPERATION.operand, seed=TASK.seed)
    source = StreamSource(dut, "i", source_pauses)
    sink = StreamSink(dut, "o", scoreboard.receive, sink_pauses)
    for expected, *words in zip(
        OPERATION.expected(*operands).tolist(), *(operand.tolist() for operand in operands), strict=True
    ):
        scoreboard.expect(expected, [words])
        source.send([sum(word << (lane * width) for lane, word in enumerate(words))])
    await start_clock(dut)
    source.start()
    sink.start()

    async def all_received() -> None:
        while scoreboard.pending:
            await RisingEdge(dut.clk)

    await within(50 * scoreboard.pending + 1000, all_received(), "all results")
    return source, sink


@cocotb.test()
async def without_pauses(dut: Any) -> None:
    """A result in every cycle, the first one after the latency."""
    source, sink = await run(dut, no_pauses(), no_pauses())
    latency = TASK.component().latency
    assert [there - here for here, there in zip(source.taken, sink.taken, strict=True)] == (
        [latency] * len(source.taken)
    )
    assert source.taken == list(range(source.taken[0], source.taken[0] + len(source.taken)))


@cocotb.test()
async def with_pauses(dut: Any) -> None:
    """Nothing is lost, doubled or changed, whatever the pauses on both sides."""
    await run(dut, random_pauses(TASK.seed + 1), random_pauses(TASK.seed + 2))
