"""Engine ``pysim``: Amaranth's own simulator."""

import logging
from pathlib import Path

from amaranth.hdl import Value
from amaranth.sim import Simulator

from openmxu.unit.mxu import Mxu
from openmxu_sim.cosim.waveform import waveform
from openmxu_sim.engines.protocol import Counters, Run
from openmxu_sim.operands.aliases import Progress
from openmxu_sim.operands.stimulus import Stalls, Stimulus, Traffic

_COMPILING, _CYCLE = 0.2, 0.0002
"""Seconds for each element: to compile it, and to simulate a cycle of it."""

_LONG = 60.0
"""Seconds from which a run is announced."""

_log = logging.getLogger(__name__)


def run(
    stimulus: Stimulus, *, stalls: Stalls | None = None, vcd: Path | None = None, progress: Progress | None = None
) -> Run:
    """Run the unit in Amaranth's simulator; see :class:`~openmxu_sim.engines.protocol.Engine`."""
    _announce(stimulus)
    unit = Mxu(stimulus.config)
    traffic = Traffic(stimulus, stalls)
    weights, activations = Value.cast(unit.weights.payload), Value.cast(unit.activations.payload)
    result = Value.cast(unit.results.payload)

    async def testbench(ctx):  # type: ignore[no-untyped-def]  # Amaranth's context has no type
        while not traffic.done:
            for port, payload, offered in (
                (unit.weights, weights, traffic.weights),
                (unit.activations, activations, traffic.activations),
            ):
                ctx.set(port.valid, offered is not None)
                ctx.set(payload, offered or 0)
            ctx.set(unit.results.ready, traffic.ready)
            _, _, weights_ready, activations_ready, valid, bits = await ctx.tick().sample(
                unit.weights.ready, unit.activations.ready, unit.results.valid, result
            )
            traffic.advance(bool(weights_ready), bool(activations_ready), bits if valid else None)
            if progress is not None:
                progress(len(traffic.results), stimulus.results)

        if stimulus.config.status:
            counters.append(Counters(*(int(ctx.get(getattr(unit.status, name))) for name in Counters._fields)))

    counters: list[Counters] = []
    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(testbench)
    if vcd is None:
        simulator.run()
    else:
        with waveform(vcd) as file, simulator.write_vcd(str(file)):
            simulator.run()
    return Run(traffic.beats(), traffic.cycles, *counters)


def _announce(stimulus: Stimulus) -> None:
    """Say how long a run takes, if it is long: nothing else is heard until the first results."""
    rows, columns = stimulus.config.rows, stimulus.config.columns
    beats = sum(len(tile.activations) for tile in stimulus.tiles)
    seconds = rows * columns * (_COMPILING + _CYCLE * (beats + rows + columns))
    if seconds >= _LONG:
        _log.warning(
            "Amaranth's simulator takes about %.0f minutes for %dx%d (an estimate); "
            "fewer rows and columns, or another engine, take less",
            max(1, seconds / 60),
            rows,
            columns,
        )
