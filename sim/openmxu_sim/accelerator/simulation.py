"""The accelerator's RTL, compiled, and the host that runs programs on it."""

import ctypes
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate

import numpy as np

from openmxu.accelerator import Accelerator, Stop
from openmxu.accelerator.bus.attached import AttachedAccelerator
from openmxu.accelerator.movers.bursts import PAGE_BITS
from openmxu.export.verilog import to_rtlil
from openmxu.runtime import cache, machine, native
from openmxu.spec.accelerator import AcceleratorConfig, check_room
from openmxu.spec.commands import Command
from openmxu.spec.formats import BF16
from openmxu.spec.integers import check_integer
from openmxu_sim.accelerator.definition import Halves, Memories
from openmxu_sim.accelerator.rtl.vector_parts import PARTS, parts_text
from openmxu_sim.netlist.circuit import Circuit
from openmxu_sim.netlist.code import Code
from openmxu_sim.netlist.native import open_library
from openmxu_sim.sources import SOURCES

_NAME, _PACKAGE = "accelerator", "openmxu_sim.accelerator.rtl"
PAGE = 1 << PAGE_BITS
"""Bytes of a page: a memory at the bus has whole ones."""


@dataclass(frozen=True)
class Run:
    """How a program ended."""

    cycles: int
    """Cycles from the start to the end, or to the stop."""
    tag: int | None
    """Tag of the ``end`` that was reached."""
    stop: Stop
    """Why it stopped."""
    index: int
    """Index of the command that stopped it."""
    begins: tuple[int, ...] = ()
    """Cycles at which commands of the program began, the end left out."""


class Fault(IntEnum):
    """A fault of the memory at a simulated bus."""

    NONE = 0
    READ_ERROR = 1
    """It answers a burst that is read with an error."""
    WRITE_ERROR = 2
    SILENT = 3
    """It answers nothing more."""
    UNEXPECTED = 4
    """It gives beats that nobody asked for."""
    WRONG_MARK = 5
    """It marks a beat as the last of its burst that is not, or does not mark the one that is."""
    TOO_MANY = 6
    """A burst has a beat more than was asked for."""
    UNASKED_ANSWER = 7
    """It answers bursts that were not written."""
    UNANSWERED = 8
    """It takes bursts that are written, and does not answer them."""
    EARLY_ANSWER = 9
    """It answers bursts that are written before their last beat."""


BROKEN_RULES = (
    "",
    "what is offered stays until it is taken",
    "a burst has at most 16 whole beats of addresses that count up",
    "a burst stays within 4 kB",
    "nothing outside of the window is asked for",
    "the last beat of a burst, and no other, is marked",
    "beats follow a request, and answers are taken",
    "a beat that is written has words that count",
    "an accelerator is quiet when nothing is under way",
)
"""Rules of the bus that a memory holds an accelerator to; what an index of them says."""


@dataclass(frozen=True)
class Speed:
    """How fast a memory at a simulated bus is.

    Raises
    ------
    TypeError, ValueError
        A number is outside its domain.
    """

    latency: int = 0
    """Cycles from a request that is taken to its first beat, or from a written burst to its answer, besides the one
    that each takes. Requests behind it are taken meanwhile."""
    every: int = 1
    """Cycles from one beat to the next: 2 is half the bus's bandwidth, in each direction."""

    def __post_init__(self) -> None:
        check_integer("latency", self.latency, 0, _SLOWEST)
        check_integer("every", self.every, 1, _SLOWEST)


_SLOWEST = 1 << 20


FASTEST = Speed()
"""A memory that is never waited for."""


@dataclass(frozen=True)
class Traffic:
    """Traffic that a memory at a simulated bus has seen."""

    broken: str
    """The rule that was broken first, or nothing."""
    quiet: bool
    """Whether the accelerator waits for no answer."""
    bursts: tuple[int, int]
    """Bursts read and written."""
    beats: tuple[int, int]


class SimulatedAccelerator:
    """An accelerator's netlist as a program of this processor, with its memories.

    Parameters
    ----------
    config
        Sizes.
    change
        Changes the RTLIL, to see what a broken machine does.

    Raises
    ------
    CompilerNotFoundError, CompilationError
        There is no C compiler, or it fails.
    """

    def __init__(self, config: AcceleratorConfig, *, change: Callable[[str], str] | None = None) -> None:
        self.config = config
        self._limbs = _limbs(config)
        self._commands = 0
        self._library = _library(config) if change is None else _compile(config, change(netlist(config)))
        self._machine = ctypes.c_void_p(self._library.machine_new())
        if not self._machine:
            raise MemoryError("no memory for a simulated accelerator")
        weakref.finalize(self, self._library.machine_free, self._machine)

    def write(self, program: Sequence[Command], memories: Memories) -> None:
        """Write a program from word 0 on, and the contents of weights and scratchpad."""
        check_room(self.config, program)
        self._commands = len(program)
        words = np.array([command.words for command in program], np.uint32).reshape(-1)
        rows = np.zeros((words.size, self._limbs[0]), np.uint32)
        rows[:, 0] = words
        for mask, data in ((1, rows), (2, self._packed(memories.weights)), (4, self._packed(memories.scratchpad))):
            self._library.machine_write(self._machine, mask, 0, len(data), np.ascontiguousarray(data).ctypes.data)

    def run(self, start: int = 0, *, most: int = 1 << 40) -> Run:
        """Run the program from a command on, for so many cycles at most."""
        self._library.machine_start(self._machine, 16 * start)
        begins = np.zeros(self._commands, np.uint64)
        cycles = self._library.machine_run(self._machine, most, len(begins), begins.ctypes.data)
        report = self._report(cycles)
        return replace(report, begins=tuple(begins.tolist()[: report.index]))

    def _report(self, cycles: int) -> Run:
        status = (ctypes.c_uint32 * 5)()
        self._library.machine_status(self._machine, status)
        running, ended, tag, stop, index = status
        return Run(cycles, tag if ended and not running else None, Stop(stop), index)

    @staticmethod
    def run_together(machines: "Sequence[SimulatedAccelerator]", *, most: int = 1 << 40) -> list[Run]:
        """Run the programs of accelerators on one bus in lockstep; each is attached to a memory, or a part of one.

        In a cycle one beat is read and one is written in sum. A burst stays whole; then the next accelerator in the
        round has its turn, if it waits for one.

        Raises
        ------
        ValueError
            They have not all one netlist.
        """
        libraries = {each._library for each in machines}
        if len(libraries) != 1:
            raise ValueError(f"accelerators on one bus must have one netlist, not {len(libraries)}")
        [library] = libraries
        for each in machines:
            library.machine_start(each._machine, 0)
        cycles = np.zeros(len(machines), np.uint64)
        pointers = (ctypes.c_void_p * len(machines))(*(each._machine for each in machines))
        library.machines_run(pointers, len(machines), most, cycles.ctypes.data)
        return [each._report(count) for each, count in zip(machines, cycles.tolist(), strict=True)]

    def reset(self) -> None:
        """Reset the machine, whatever it does. Its memories stay as they are."""
        self._library.machine_reset(self._machine)

    def attach(
        self,
        memory: Halves,
        base: int = 0,
        *,
        speed: Speed = FASTEST,
        seed: int = 0,
        stall: float = 0,
        fault: Fault = Fault.NONE,
        at: int = 1,
    ) -> None:
        """Attach a memory to the bus, of whole pages of 4 kB: programs change it.

        ``stall`` is the share of cycles in which a channel waits, ``at`` the burst, counted from 1, with the fault.
        """
        if memory.dtype != np.uint16 or not memory.flags.c_contiguous or memory.nbytes % PAGE or base % PAGE:
            raise ValueError(
                f"memory must be patterns in uint16, in pages of {PAGE} bytes, not {memory.nbytes} at {base}"
            )
        self._memory = memory
        self._library.machine_attach(
            self._machine,
            memory.ctypes.data,
            memory.nbytes,
            base,
            seed,
            round(256 * stall),
            speed.latency,
            speed.every,
            fault,
            at,
        )

    def traffic(self, cycles: int = 0) -> Traffic:
        """Go on for so many cycles, and say what the memory has seen."""
        self._library.machine_tick(self._machine, cycles)
        seen = (ctypes.c_uint64 * 6)()
        self._library.machine_traffic(self._machine, seen)
        return Traffic(BROKEN_RULES[seen[0]], bool(seen[1]), (seen[2], seen[3]), (seen[4], seen[5]))

    def scratchpad(self) -> Halves:
        """Read the scratchpad."""
        limbs = self._limbs[1]
        data = np.zeros((self.config.rows, limbs), np.uint32)
        self._library.machine_read(self._machine, len(data), data.ctypes.data)
        return data.view("<u2")[:, : self.config.size].astype(np.uint16)

    def _packed(self, rows: Halves) -> np.ndarray:
        padded = np.zeros((len(rows), 2 * self._limbs[0]), "<u2")
        padded[:, : self.config.size] = rows
        return padded.view("<u4").astype(np.uint32)


def _limbs(config: AcceleratorConfig) -> tuple[int, int]:
    """32-bit limbs of ``i_data`` and of ``o_data``."""
    row = config.size * BF16.width
    return -(-max(row, 32) // 32), -(-row // 32)


def netlist(config: AcceleratorConfig, *, without: Collection[type] = ()) -> str:
    """Return an accelerator's RTLIL, its memories and parts of some types left out if any are to be."""
    machine = AttachedAccelerator if config.beat else Accelerator
    return cache.fetch_result(
        SOURCES,
        lambda: to_rtlil(machine(config), name=_NAME, hollow=without).encode(),
        f"{_NAME}-without" if without else _NAME,
        repr(config),
    ).decode()


@lru_cache(maxsize=4)
def _library(config: AcceleratorConfig) -> ctypes.CDLL:
    return _compile(config, netlist(config, without=PARTS), parts=True)


def machine_text(
    rtlil: str, config: AcceleratorConfig, watched: Collection[str] = (), *, parts: bool = False
) -> tuple[str, dict[str, int]]:
    """Return the C text of a machine with its host, and the first word of each output, and watched wire.

    With ``parts``, those that the RTLIL leaves out come as vector code.
    """
    circuit = Circuit(rtlil, _NAME, resets=True, watched=watched)
    code = Code(circuit, _NAME, lanes=False)
    code.function("step", list(circuit.outputs), inputs=circuit.inputs, clock=True)
    limbs = _limbs(config)
    text = [
        native.resource("openmxu_sim.engines.compiled", "vectors.c"),
        code.text(),
        "#define MUTANTS" * ("mutant" in circuit.inputs),
        *(["#define PARTS", parts_text(config, circuit)] if parts else []),
        f"enum {{ LIMBS = {limbs[0]}, ROW_LIMBS = {limbs[1]} }};",
        *([f"#define BUS {config.beat}", native.resource(_PACKAGE, "bus.c")] if config.beat else []),
        native.resource(_PACKAGE, "machine.c"),
    ]
    sizes = [-(-len(bits) // 32) for bits in circuit.outputs.values()]
    return "\n".join(text), dict(zip(circuit.outputs, accumulate(sizes, initial=0), strict=False))


def _compile(config: AcceleratorConfig, rtlil: str, *, parts: bool = False) -> ctypes.CDLL:
    text, _ = machine_text(rtlil, config, parts=parts)
    key = cache.key(native.compiler_identity(), machine.processor(), text)
    library = open_library(cache.fetch("models", key, lambda: native.build_library(text)))
    library.machine_new.restype = ctypes.c_void_p
    library.machine_run.restype = ctypes.c_uint64
    pointer, number = ctypes.c_void_p, ctypes.c_uint32
    library.machine_free.argtypes = [pointer]
    library.machine_write.argtypes = [pointer, number, number, ctypes.c_size_t, pointer]
    library.machine_start.argtypes = [pointer, number]
    library.machine_run.argtypes = [pointer, ctypes.c_uint64, number, pointer]
    library.machine_read.argtypes = [pointer, ctypes.c_size_t, pointer]
    if config.beat:
        long = ctypes.c_uint64
        library.machine_attach.argtypes = [pointer, pointer, long, number, long, *[number] * 5]
        library.machine_tick.argtypes = [pointer, long]
        library.machines_run.argtypes = [pointer, number, long, pointer]
        library.machine_traffic.argtypes = [pointer, pointer]
    return library
