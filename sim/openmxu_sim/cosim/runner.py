"""Run a cocotb module on a compiled simulation."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from openmxu.runtime import process
from openmxu_sim.cosim.build import TIMESCALE, build_simulation, forget_simulation
from openmxu_sim.cosim.process import BenchFailedError, SimulationError, SimulationTimeoutError, run_child
from openmxu_sim.cosim.simulators import package_directory
from openmxu_sim.cosim.waveform import waveform

_RESULTS = "results.xml"


def simulate(
    verilog: str,
    top: str,
    module: str,
    *,
    simulator: str = "verilator",
    environment: Mapping[str, str] | None = None,
    plusargs: Sequence[str] = (),
    vcd: Path | None = None,
    timeout: float | None = 600.0,
    tick: Callable[[], None] | None = None,
    check: Callable[[], None] | None = None,
) -> list[str]:
    """Build a design, or take it from the cache, and run the tests of a cocotb module on it.

    A new build is cached if tests ran on it to their ends. A cached build that does not run is built again.
    """
    with process.workspace() as directory:
        design: dict[str, Any] = {"verilog": verilog, "top": top, "simulator": simulator, "waves": vcd is not None}
        with nullcontext() if vcd is None else waveform(vcd) as made:
            arguments, variables = _arguments(module, top, simulator, directory, plusargs, made)
            outcomes: list[list[str] | BenchFailedError] = []

            def run() -> None:
                run_child(
                    {"simulator": simulator, "action": "test", "arguments": arguments},
                    directory=directory,
                    environment=variables | dict(environment or {}),
                    what=f"{module} on {top} in {simulator}",
                    timeout=timeout,
                    tick=tick,
                )
                try:
                    outcomes.append(_passed(directory))
                except BenchFailedError as error:
                    outcomes.append(error)
                if check is not None:
                    check()

            build_simulation(**design, directory=directory, trial=run)
            try:
                if not outcomes:
                    run()
            except SimulationTimeoutError:
                raise
            except SimulationError:
                outcomes.clear()
                forget_simulation(**design)
                build_simulation(**design, directory=directory, trial=run)
    [outcome] = outcomes
    if isinstance(outcome, BenchFailedError):  # here, so that one who looks for the reason has the waveform
        raise outcome
    return outcome


def _arguments(
    module: str, top: str, simulator: str, directory: Path, plusargs: Sequence[str], made: Path | None
) -> tuple[dict[str, object], dict[str, str]]:
    """Return arguments of cocotb's runner and variables of its process; ``made``: the waveform, if one is wanted."""
    arguments: dict[str, object] = {
        "test_module": module,
        "hdl_toplevel": top,
        "hdl_toplevel_lang": "verilog",
        "build_dir": str(directory),
        "test_dir": str(directory),
        "results_xml": str(directory / _RESULTS),
        "timescale": TIMESCALE,
        "seed": 0,
        "plusargs": list(plusargs),
    }
    # A simulation that was linked elsewhere, or long ago, finds cocotb's library all the same.
    variables = {"LD_LIBRARY_PATH": str(package_directory("cocotb") / "libs"), "COCOTB_ANSI_OUTPUT": "0"}
    if made is not None and simulator == "verilator":
        arguments |= {"waves": True, "test_args": ["--trace-file", str(made)]}
    elif made is not None:
        arguments["plusargs"] = [*plusargs, f"+dump={made}"]
        variables["SIM_CMD_SUFFIX"] = "-vcd"  # comes last and wins over the runner's "no waveform"
    return arguments, variables


def _passed(directory: Path) -> list[str]:
    """Return the names of the tests, all of which must have passed."""
    results, log = directory / _RESULTS, (directory / "log.txt").read_text(errors="replace")
    cases = list(ElementTree.parse(results).getroot().iter("testcase")) if results.is_file() else []
    failed = [
        case.get("name", "")
        for case in cases
        if any(case.find(outcome) is not None for outcome in ("failure", "error"))
    ]
    if failed or not cases:
        if failed:
            raise BenchFailedError(f"failed: {', '.join(failed)}\n{log}")
        raise SimulationError(f"no test was run\n{log}")
    return [case.get("name", "") for case in cases]
