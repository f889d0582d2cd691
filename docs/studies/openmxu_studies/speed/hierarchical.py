"""Verilator at its fastest on a large unit: it compiles a row once, and a program in C++ drives the streams.

The engine ``compiled`` is measured by it and checked against it; no simulator of this project has a part in it.

Verilator compiles each processing element of a design again, half a second each, and takes more memory at 128x128 than
most machines have. As a hierarchical block, a row is compiled once and called for each row, more than once in a cycle:
Verilator does not know that nothing passes a row within a cycle. The design is the exported Verilog, except for two
things that save such calls and double the speed, see :func:`build`.
"""

import json
import os
import re
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openmxu.export.verilog import to_verilog
from openmxu.runtime import cache, machine, process
from openmxu.runtime.native import resource
from openmxu.spec.config import MxuConfig
from openmxu.unit.accumulator import ResultBeat
from openmxu.unit.edge import ActivationBeat, WeightBeat
from openmxu.unit.mxu import Mxu
from openmxu_sim.cosim.build import ENVIRONMENT, verilator_environment, workspace
from openmxu_sim.cosim.process import SimulationError, run_program
from openmxu_sim.cosim.simulators import Simulator, load_simulator
from openmxu_sim.engines.known_answer import check_simulation, question
from openmxu_sim.engines.protocol import Run
from openmxu_sim.operands.aliases import Progress
from openmxu_sim.operands.stimulus import Stalls, Stimulus, read_words

_TIMEOUT = 7200.0  # seconds; 128x128 takes two minutes on one core

_VERILATOR_OPTIONS = (
    "--cc",
    "--exe",
    "--hierarchical",
    "--top-module",
    "bench",
    "--prefix",
    "Vbench",
    "--Mdir",
    "build",
    "-O3",
    "--x-initial",
    "fast",
    # Each of many small files would begin with Verilator's headers.
    "--output-split",
    "0",
)
# At -O3 a row of 32 is no faster, and takes twice as long to compile; one of 128 took more than ten minutes.
_COMPILED = ("OPT_FAST=-O1 -march=native", "OPT_GLOBAL=-O1")

_STREAMS = ("weights", "activations", "results")

# A wrapper of the unit: ports that C++ can name, and a register for the reset.
_BENCH = """\
module bench(
  input clk, input rst,
  input weights_valid, output weights_ready, input [{weights}-1:0] weights_payload,
  input activations_valid, output activations_ready, input [{activations}-1:0] activations_payload,
  output results_valid, input results_ready, output [{results}-1:0] results_payload
);
  reg reset;
  always @(posedge clk) reset <= rst;
  mxu unit(
    .clk(clk), .rst(reset),
    .weights__valid(weights_valid), .weights__ready(weights_ready), .weights__payload(weights_payload),
    .activations__valid(activations_valid), .activations__ready(activations_ready),
    .activations__payload(activations_payload),
    .results__valid(results_valid), .results__ready(results_ready), .results__payload(results_payload)
  );
endmodule
"""


@dataclass(frozen=True)
class Timed:
    """A run and what it took."""

    run: Run
    """The run."""
    build: float
    """Seconds until the program was there: built, or taken from the cache."""
    seconds: float
    """Seconds of the simulation alone, without reset, start and end of the program."""
    clocks: int
    """Cycles simulated in these seconds."""


def run(
    stimulus: Stimulus, *, stalls: Stalls | None = None, vcd: Path | None = None, progress: Progress | None = None
) -> Run:
    """Run the unit in Verilator, row by row; see :class:`~openmxu_sim.engines.protocol.Engine`."""
    if vcd is not None:
        raise ValueError(f"vcd must be None, as rows that are compiled once have no waveform, not {str(vcd)!r}")
    return run_timed(stimulus, stalls=stalls, progress=progress).run


def run_timed(stimulus: Stimulus, *, stalls: Stalls | None = None, progress: Progress | None = None) -> Timed:
    """Run as :func:`run` does, and measure the time."""
    start = time.perf_counter()
    program = build(stimulus.config)
    built = time.perf_counter() - start
    result, clocks, seconds = _run(program, stimulus, stalls, progress)
    if progress is not None:
        progress(stimulus.results, stimulus.results)
    return Timed(result, built, seconds, clocks)


def _run(
    program: bytes, stimulus: Stimulus, stalls: Stalls | None, progress: Progress | None
) -> tuple[Run, int, float]:
    """Run a program on a stimulus; returns the run, and its clocks and seconds."""
    size = {name: -(-width // 8) for name, width in _widths(stimulus.config).items()}
    with process.workspace() as directory:
        executable = directory / "simulation"
        executable.write_bytes(program)
        executable.chmod(0o755)
        _write_inputs(stimulus, stalls, size, directory)
        period = 0 if stalls is None else stalls.period
        numbers = (*(size[name] for name in _STREAMS), stimulus.results, period, stimulus.patience + period)
        command = [str(executable), *map(str, numbers)]
        cycles, clocks, seconds = _simulate(command, directory, stimulus.results, progress)
        beats = _read_beats(directory / "results", size["results"], stimulus.config)
    return Run(beats, int(cycles)), int(clocks), float(seconds)


@lru_cache(maxsize=4)
def build(config: MxuConfig) -> bytes:
    """Return the program that simulates a unit, from the cache or built now; see ``hierarchical.cpp`` for its work.

    Reset goes through a register: all rows depend on it, and Verilator takes every input for changed at every call.
    Registers are clocked on both edges, so that one edge is one cycle: an idle edge would cost as many calls.
    """
    simulator = load_simulator("verilator")
    design = _design(config)
    sources = {"design.v": design, "harness.cpp": resource("openmxu_studies.speed", "hierarchical.cpp")}
    environment = [os.environ.get(name, "") for name in ENVIRONMENT]
    tools = json.dumps([simulator.identity, machine.processor(), environment, _VERILATOR_OPTIONS, _COMPILED])

    def make() -> bytes:
        program = _build(simulator, sources)
        check_simulation("verilator", config, _run(program, question(config), None, None)[0])
        return program

    return cache.fetch("simulations", cache.key("hierarchical", tools, *sources.values()), make)


def _design(config: MxuConfig) -> str:
    """Return the Verilog to compile: the unit with its row marked as a block, and the bench, clocked on both edges."""
    text = to_verilog(Mxu(config), prefix="unit")
    rows = re.findall(r"^module (unit_row_\w+)\(", text, flags=re.MULTILINE)
    if len(rows) != 1:
        raise AssertionError(f"there must be one module of a row, not {len(rows)}")
    marked = re.sub(rf"^module {rows[0]}\([^;]*\);", r"\g<0> /* verilator hier_block */", text, flags=re.MULTILINE)
    return (marked + _BENCH.format(**_widths(config))).replace("posedge clk", "clk")


def _widths(config: MxuConfig) -> dict[str, int]:
    """Return the bits of a beat of each stream."""
    return {
        "weights": WeightBeat(config.source, config.columns, parts=config.splitter).size,
        "activations": ActivationBeat(config.source, config.rows, parts=config.splitter).size,
        "results": ResultBeat(config.result, config.columns).size,
    }


def _build(simulator: Simulator, sources: dict[str, str]) -> bytes:
    with workspace() as work:
        for name, text in sources.items():
            (work / name).write_text(text)
        environment = verilator_environment(simulator, work)
        verilator = str(work / "programs" / "verilator")
        make = ("make", "-C", "build", "-f", "Vbench_hier.mk", f"VM_HIER_VERILATOR={verilator}", *_COMPILED)
        deadline = time.monotonic() + _TIMEOUT
        for command in ((verilator, *_VERILATOR_OPTIONS, *sources), (*make, "hier_build")):
            run_program(
                command,
                directory=work,
                environment=environment,
                what="the build by rows",
                timeout=deadline - time.monotonic(),
            )
        return (work / "build" / "Vbench").read_bytes()


def _write_inputs(stimulus: Stimulus, stalls: Stalls | None, size: dict[str, int], directory: Path) -> None:
    for name, payloads in (("weights", stimulus.weight_payloads()), ("activations", stimulus.activation_payloads())):
        with (directory / name).open("wb") as file:
            file.writelines(payload.to_bytes(size[name], "little") for payload in payloads)
    if stalls is not None:
        (directory / "stalls").write_bytes(stalls.pattern.astype(np.uint8).tobytes())


def _simulate(command: list[str], directory: Path, results: int, progress: Progress | None) -> list[str]:
    """Run the program; returns the words of its last line."""
    log = directory / "messages"

    def told() -> list[str]:
        """The lines so far; the last finished one that is a number says how many results there are."""
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        if progress is not None and (counts := [line for line in lines if line.isdecimal()]):
            progress(int(counts[-1]), results)
        return lines

    # Without a limit: the program itself notices a unit that hangs, and a large product may take days.
    done = process.run(command, what="the simulation", limit=None, directory=directory, log=log, tick=told)
    lines = told()
    if done.code != 0:
        said = "\n".join(line for line in lines if not line.isdecimal())
        raise SimulationError(said or f"the simulation ended with {done.code}")
    return lines[-1].split()


def _read_beats(file: Path, size: int, config: MxuConfig) -> npt.NDArray[np.uint32]:
    data = file.read_bytes()
    payloads = (int.from_bytes(data[start : start + size], "little") for start in range(0, len(data), size))
    return np.array(
        [read_words(payload, config.result.width, config.columns) for payload in payloads], dtype=np.uint32
    ).reshape(-1, config.columns)
