"""Test benches for the kit's own tests, on designs of a few lines."""

import os
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from openmxu_sim.cosim.clocking import cycle, start_clock, within
from openmxu_sim.cosim.rigid import play
from openmxu_sim.cosim.scoreboard import Scoreboard
from openmxu_sim.cosim.stream import StreamSink, StreamSource, random_pauses


@cocotb.test(skip="stream" not in os.environ["KIT"])
async def stream(dut: Any) -> None:
    for fault in ("corrupt", "fickle", "deaf"):
        getattr(dut, fault).value = fault in os.environ["KIT"]
    scoreboard = Scoreboard("o", "bf16", lanes=2, operand="bf16", seed=0)
    source = StreamSource(dut, "i", random_pauses(1))
    sink = StreamSink(dut, "o", scoreboard.receive, random_pauses(2))
    beats = [number % 256 for number in range(300)]
    for byte in beats:
        source.send([byte * 0x01010101])
        scoreboard.expect(byte * 0x01010101, [[byte], [byte]])
    await start_clock(dut)
    source.start()
    sink.start()

    async def done() -> None:
        while scoreboard.pending:
            await RisingEdge(dut.clk)

    await within(30_000, done(), "all beats")
    assert len(source.taken) == len(sink.taken) == len(beats)
    assert source.pending == 0
    assert source.taken != list(range(source.taken[0], source.taken[0] + len(beats)))


@cocotb.test(skip="rigid" not in os.environ["KIT"])
async def rigid(dut: Any) -> None:
    dut.i.value = 0
    await start_clock(dut, cycles=4)
    seen = await play(dut, {"i": [1, 2, 3]}, ["o"], more=2)
    assert seen == {"o": [0, 0, 1, 2, 3]}


@cocotb.test(skip="sleep" not in os.environ["KIT"])
async def sleep(dut: Any) -> None:
    await start_clock(dut)
    while cycle() >= 0:
        await RisingEdge(dut.clk)
