"""The cocotb side of :mod:`~openmxu_sim.engines.cosimulation`: beats in, beats out."""

import os
import time
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, RisingEdge

from openmxu_sim.cosim.clocking import start_clock
from openmxu_sim.engines.cosimulation import DIRECTORY, PROGRESS, RESULT, STIMULUS, read_stimulus
from openmxu_sim.engines.protocol import Counters
from openmxu_sim.operands.stimulus import Traffic


@cocotb.test()
async def traffic(dut: Any) -> None:
    """Drive all of a stimulus, and write the results into a file."""
    directory = Path(os.environ[DIRECTORY])
    stimulus, stalls = read_stimulus(directory / STIMULUS)
    state = Traffic(stimulus, stalls)
    weights, activations = dut.weights__valid, dut.activations__valid
    weights_ready, activations_ready = dut.weights__ready, dut.activations__ready
    ready, valid, payload = dut.results__ready, dut.results__valid, dut.results__payload
    inputs = [weights, dut.weights__payload, activations, dut.activations__payload, ready]
    for port in [*inputs, *([dut.status__clear] if stimulus.config.status else [])]:
        port.value = 0
    await start_clock(dut)

    edge = RisingEdge(dut.clk)
    shown = [0] * len(inputs)
    next_report = time.monotonic()
    while not state.done:
        # Setting a signal is what takes time: only those that change are set.
        wanted = [
            int(state.weights is not None),
            state.weights or 0,
            int(state.activations is not None),
            state.activations or 0,
            int(state.ready),
        ]
        for index, value in enumerate(wanted):
            if value != shown[index]:
                inputs[index].value = value
        shown = wanted
        await edge
        state.advance(
            bool(weights_ready.value), bool(activations_ready.value), int(payload.value) if valid.value else None
        )
        if time.monotonic() > next_report:
            (directory / PROGRESS).write_text(str(len(state.results)))
            next_report = time.monotonic() + 0.2
    counters = []
    if stimulus.config.status:
        await FallingEdge(dut.clk)  # by then the counters include the last result
        counters = [int(getattr(dut, f"status__{name}").value) for name in Counters._fields]
    np.savez(directory / RESULT, beats=state.beats(), cycles=state.cycles, counters=np.array(counters, dtype=np.int64))
