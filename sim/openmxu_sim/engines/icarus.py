"""Engine ``icarus``: the unit's Verilog in Icarus Verilog, driven by cocotb."""

from pathlib import Path

from openmxu_sim.engines import cosimulation
from openmxu_sim.engines.protocol import Run
from openmxu_sim.operands.aliases import Progress
from openmxu_sim.operands.stimulus import Stalls, Stimulus


def run(
    stimulus: Stimulus, *, stalls: Stalls | None = None, vcd: Path | None = None, progress: Progress | None = None
) -> Run:
    """Run the unit in Icarus Verilog; see :class:`~openmxu_sim.engines.protocol.Engine`."""
    return cosimulation.run("icarus", stimulus, stalls=stalls, vcd=vcd, progress=progress)
