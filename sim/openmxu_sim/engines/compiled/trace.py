"""Looking inside a run: the registers of some processing elements and the streams, cycle by cycle."""

import ctypes
from dataclasses import dataclass

import numpy as np

from openmxu.spec.config import MxuConfig
from openmxu_sim.operands.aliases import Words

STREAMS = (
    "weights__valid",
    "weights__ready",
    "weights__marks",
    "activations__valid",
    "activations__ready",
    "activations__marks",
    "results__valid",
    "results__ready",
    "results__last",
    "admission.o_shift",
    "admission.o_go",
)
"""Signals of the streams: one bit each, except the marks, which are all bits above the data of a beat. The
last two tell when a beat of weights, and one of activations, leaves admission."""

_MOST = 1 << 30
"""Most bytes of a trace."""


@dataclass(frozen=True)
class Window:
    """The part of a run to trace."""

    rows: range
    columns: range
    """Processing elements, each of which stands for ``terms`` rows of the unit."""
    cycles: range
    """Counted from the end of the reset."""

    def __post_init__(self) -> None:
        for name in ("rows", "columns", "cycles"):
            value = getattr(self, name)
            if not value or value.start < 0 or value.step != 1:
                raise ValueError(f"{name} of a trace must be a range from 0 up, not {value.start} to {value.stop}")

    def check(self, config: MxuConfig) -> None:
        """Raise a ValueError if this is no part of a unit."""
        for name, most in (("rows", config.element_rows), ("columns", config.columns)):
            value = getattr(self, name)
            if value.stop > most:
                raise ValueError(f"{name} of a trace must be within 0 to {most}, not {value.start} to {value.stop}")


def small_window(config: MxuConfig) -> Window:
    """Return a window that a waveform viewer copes with: the first cycles, rows and columns of a unit's elements."""
    return Window(range(min(config.element_rows, 8)), range(min(config.columns, 8)), range(4096))


class _Window(ctypes.Structure):
    """As in ``unit.c``."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("first_row", "rows", "first_column", "columns", "first_cycle", "cycles")),
        *((name, ctypes.c_void_p) for name in ("cells", "streams", "activations", "weights", "results")),
    ]


class Trace:
    """The recorded part of a run.

    Attributes
    ----------
    window
        The part of the run. :meth:`end` cuts it to the cycles that there were.
    streams
        (cycles, signals): the signals of the streams, see :data:`STREAMS`.
    activations, weights, results
        (cycles, rows · terms) and twice (cycles, columns): words of the streams' payloads.
    ran
        Cycles of the whole run, which the window may miss; 0 until it is over.
    """

    def __init__(self, window: Window, registers: tuple[tuple[str, int], ...], terms: int = 1) -> None:
        self.window = window
        self.ran = 0
        self._registers = registers
        size = trace_bytes(window, dict(registers))
        if size > _MOST:
            raise ValueError(
                f"a trace must be of at most {_MOST >> 20} MiB, not of {size >> 20} MiB: "
                "trace fewer rows, columns or cycles"
            )
        limbs = sum(_limbs(width) for _, width in registers)
        rows, columns, cycles = len(window.rows), len(window.columns), len(window.cycles)
        self._cells: Words = np.zeros((cycles, rows, columns, limbs), dtype=np.uint32)
        self.streams: Words = np.zeros((cycles, len(STREAMS)), dtype=np.uint32)
        self.activations: Words = np.zeros((cycles, rows * terms), dtype=np.uint32)
        self.weights: Words = np.zeros((cycles, columns), dtype=np.uint32)
        self.results: Words = np.zeros((cycles, columns), dtype=np.uint32)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the contents of the trace, and how to read them."""
        window = self.window
        part = ", ".join(
            f"{name} {getattr(window, name).start} to {getattr(window, name).stop - 1}"
            for name in ("rows", "columns", "cycles")
        )
        lines = "".join(f"<tr><td>{name}</td><td>{width}</td></tr>" for name, width in self.registers.items())
        return (
            f"<div>Trace of a run of {self.ran} cycles: {part}; <code>register(name)</code> is (cycles, rows, columns)"
            f"</div><table><tr><th>register</th><th>bits</th></tr>{lines}</table>"
        )

    @property
    def registers(self) -> dict[str, int]:
        """Names and widths of a processing element's registers."""
        return dict(self._registers)

    def register(self, name: str) -> Words:
        """(cycles, rows, columns): what a register of up to 32 bits holds in each cycle before its clock edge."""
        limbs = self.limbs(name)
        if limbs.shape[-1] > 1:
            raise ValueError(f"register must be of at most 32 bits, not {name!r} of {self.registers[name]}: see limbs")
        return limbs[..., 0]

    def limbs(self, name: str) -> Words:
        """(cycles, rows, columns, limbs): contents of a register of any width, 32 bits a limb, the lowest first."""
        start = 0
        for register, width in self._registers:
            stop = start + _limbs(width)
            if register == name:
                # A single bit is all ones where it is high.
                top = (1 << (width - 1) % 32 + 1) - 1
                masks = np.array([0xFFFFFFFF] * (stop - start - 1) + [top], dtype=np.uint32)
                return self._cells[..., start:stop] & masks
            start = stop
        raise ValueError(f"register must be one of {', '.join(self.registers)}, not {name!r}")

    def structure(self) -> ctypes.Structure:
        """Return the C structure that tells a run where to write."""
        window = self.window
        places = (self._cells, self.streams, self.activations, self.weights, self.results)
        return _Window(
            window.rows.start,
            len(window.rows),
            window.columns.start,
            len(window.columns),
            window.cycles.start,
            len(window.cycles),
            *(array.ctypes.data for array in places),
        )

    def end(self, cycles: int) -> None:
        """End the trace of a run of so many cycles, and cut it to them."""
        self.ran = cycles
        first = self.window.cycles.start
        kept = max(0, min(cycles, self.window.cycles.stop) - first)
        self.window = Window(self.window.rows, self.window.columns, range(first, first + kept)) if kept else self.window
        for name in ("_cells", "streams", "activations", "weights", "results"):
            setattr(self, name, getattr(self, name)[:kept])


def trace_bytes(window: Window, registers: dict[str, int]) -> int:
    """Return the bytes of a trace of a window, for processing elements with registers of these widths."""
    limbs = sum(map(_limbs, registers.values()))
    rows, columns, cycles = len(window.rows), len(window.columns), len(window.cycles)
    return 4 * cycles * (rows * columns * limbs + len(STREAMS) + rows + 2 * columns)


def _limbs(width: int) -> int:
    return -(-width // 32)
