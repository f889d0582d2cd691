"""The parameters of an accelerator, and which programs it takes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from openmxu.spec.commands import WORDS, Command
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16
from openmxu.spec.integers import check_integer

MOST_ROWS = 1 << 16
"""Rows of a scratchpad that commands can name."""

MOST_WEIGHTS = 1 << 24
"""Rows of a memory of weights that commands can name."""

MOST_LOADED = 1 << 19
"""Of them, those that a load can name."""

MOST_PROGRAM = 1 << 20
"""Words of a memory of commands."""

BEATS = (32, 64, 128, 256, 512, 1024)
"""Bits of a beat on a bus."""

MOST_READS = 1 << 24
"""Rows that a command may read."""


@dataclass(frozen=True)
class AcceleratorConfig:
    """The parameters of an accelerator of bf16. Validated and frozen.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain; the text names it, the domain and the value.
    """

    size: int = 4
    """Rows and columns of the array: results have the layout of operands."""
    stages: int = 4
    """Pipeline registers of a processing element."""
    depth: int = 256
    """Rows of the accumulator bank: the most rows of a tile."""
    rows: int = 4096
    """Rows of the scratchpad, ``size`` words each."""
    weights: int = 4096
    """Rows of the memory of weights, ``size`` words each."""
    program: int = 1024
    """Words of the memory of commands, of 32 bits."""
    beat: int = 0
    """Bits of a beat on the bus, at most a row's; 0: there is no bus, and no command may move words."""

    def __post_init__(self) -> None:
        for name, most in (("rows", MOST_ROWS), ("weights", MOST_WEIGHTS), ("program", MOST_PROGRAM)):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), 1, most))
        object.__setattr__(self, "size", self.unit.rows)  # the unit checks its parameters
        widths = [width for width in BEATS if width <= self.size * BF16.width]
        if check_integer("beat", self.beat, 0, BEATS[-1]) and self.beat not in widths:
            raise ValueError(f"beat must be 0 or one of {', '.join(map(str, widths)) or 'none'}, not {self.beat}")

    @property
    def unit(self) -> MxuConfig:
        """The unit inside."""
        return MxuConfig(rows=self.size, columns=self.size, stages=self.stages, depth=self.depth, source=BF16)


def config_of(
    rows: int, columns: int, stages: int, depth: int, scratchpad: str, weights: str, **others: int
) -> AcceleratorConfig:
    """The parameters of an accelerator whose memories are given in bytes, such as 64K.

    Raises
    ------
    TypeError, ValueError
        The array is not square, or a parameter is outside its domain.
    """
    if columns != rows:
        raise ValueError(f"columns must be rows={rows} in an accelerator, not {columns}")
    config = AcceleratorConfig(rows, stages, depth, **others)  # before sizes are in rows
    sizes = {
        "rows": _rows_of_bytes(scratchpad, "scratchpad", rows, MOST_ROWS),
        "weights": _rows_of_bytes(weights, "weights", rows, MOST_WEIGHTS),
    }
    return replace(config, **sizes)


def _rows_of_bytes(text: str, name: str, size: int, most: int) -> int:
    """Rows of a memory of this many bytes."""
    factor = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:].upper(), 1)
    digits = text[:-1] if factor > 1 else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise ValueError(f"{name} must be a number of bytes, such as 64K or 1M, not {text!r}")
    if not 1 <= (rows := int(digits) * factor // (2 * size)) <= most:
        raise ValueError(f"{name} must be from {2 * size} to {2 * size * most} bytes for {size}x{size}, not {text}")
    return rows


def check_program(config: AcceleratorConfig, program: Sequence[Command]) -> None:
    """Refuse a program that the accelerator would stop at, and name the first wrong command.

    Raises
    ------
    ValueError
        A command names what is not there, adds to sums that are not there or leaves some behind, or none is the end.
    """
    left = 0  # rows of sums that the last command left to be added to
    for index, command in enumerate(program):
        try:
            for problem in _problems(config, command, left):
                raise ValueError(problem)
        except ValueError as error:
            raise ValueError(f"command {index} ({command.opcode}): {error}") from None
        if command.kind.engine == "compute" or command.opcode == "end":
            left = 0 if command.opcode != "matmul" or command.values["emit"] else rows_of_tile(command)
    if not program or program[-1].opcode != "end":
        raise ValueError("a program must end with the command end")
    check_room(config, program)


def check_room(config: AcceleratorConfig, program: Sequence[Command]) -> None:
    """Refuse a program that is too long for the accelerator."""
    if WORDS * len(program) > config.program:
        raise ValueError(f"a program must have at most {config.program // WORDS} commands, not {len(program)}")


def too_small(config: AcceleratorConfig, memory: str, least: int, given: int, purpose: str) -> ValueError:
    """An error about a memory with fewer rows than a purpose needs, in bytes as options have them."""
    row = 2 * config.size
    return ValueError(f"{memory} must have at least {row * least} bytes for {purpose}, {least} rows, not {row * given}")


def rows_of_tile(command: Command) -> int:
    """Rows of a tile of a ``matmul``."""
    return command.levels["x"].trips * command.levels["y"].trips


def weights_of(command: Command, size: int) -> int:
    """Rows of weights of a ``matmul``, biases included."""
    trips = {name: level.trips for name, level in command.levels.items()}
    return trips["n"] * (2 * command.values["bias"] + size * trips["kx"] * trips["ky"] * trips["block"])


def rows_read(command: Command) -> npt.NDArray[np.int64]:
    """Rows of the scratchpad that a command reads, in its order."""
    if command.opcode == "store":
        return _walk(command, "rows", command.kind.levels, 1)
    if exchanges(command):
        tiles = math.prod(command.levels[name].trips for name in ("kx", "ky", "block")) - command.values["bias"]
        return command.values["weights"] + np.arange(tiles)
    return rows_fed(command) if command.kind.engine == "compute" else _NONE


def rows_fed(command: Command) -> npt.NDArray[np.int64]:
    """Rows that flow through the array or the pool, in their order: of the memory of weights in an exchange."""
    return _walk(command, "reads", command.kind.levels, 1)


def exchanges(command: Command) -> bool:
    """Whether operands and weights exchange roles."""
    return bool(command.values.get("exchange"))


def rows_written(command: Command) -> npt.NDArray[np.int64]:
    """Rows of the scratchpad that a command writes, in its order."""
    if command.opcode == "load":
        return _NONE if command.values["into_weights"] else _walk(command, "rows", command.kind.levels, 1)
    writes = command.opcode == "pool" or (command.opcode == "matmul" and command.values["emit"])
    return _walk(command, "writes", command.kind.others, 2) if writes else _NONE


def weights_read(command: Command, size: int) -> npt.NDArray[np.int64]:
    """Rows of the memory of weights that a command reads."""
    if exchanges(command):
        return rows_fed(command)
    if command.opcode != "matmul":
        return _NONE
    return command.values["weights"] + np.arange(weights_of(command, size))


def weights_written(command: Command) -> npt.NDArray[np.int64]:
    """Rows of the memory of weights that a command writes, in its order."""
    return _walk(command, "rows", command.kind.levels, 1) if command.values.get("into_weights") else _NONE


def words_moved(command: Command) -> npt.NDArray[np.int64]:
    """First words of the memory's runs that a ``load`` or ``store`` moves, in its order."""
    return _walk(command, "address", command.kind.others, 2)


_NONE = np.zeros(0, np.int64)


def _walk(command: Command, base: str, levels: Sequence[str], part: int) -> npt.NDArray[np.int64]:
    """Addresses that loops over such levels visit, innermost first, by strides (1) or other strides (2)."""
    addresses = np.array([command.values[base]])
    for name in levels:
        level = command.levels[name]
        addresses = np.add.outer(level[part] * np.arange(level.trips), addresses).ravel()
    return addresses


def _problems(config: AcceleratorConfig, command: Command, left: int) -> Iterator[str]:
    """Yield the mistakes of a command after one that left this many rows of sums."""
    values, reads = command.values, math.prod(level.trips for level in command.levels.values())
    if reads > MOST_READS:
        raise ValueError(f"trips must multiply to at most {MOST_READS}, not {reads}")
    for noun, rows in (("rows read", rows_read(command)), ("rows written", rows_written(command))):
        if rows.size and not 0 <= rows.min() <= rows.max() < config.rows:
            yield f"{noun} must be from 0 to {config.rows - 1}, not from {rows.min()} to {rows.max()}"
    most = min(config.weights, MOST_LOADED) - 1
    if (rows := weights_written(command)).size and not 0 <= rows.min() <= rows.max() <= most:
        yield f"weights written must be from 0 to {most}, not from {rows.min()} to {rows.max()}"
    if np.intersect1d(rows_read(command), rows_written(command)).size:
        yield "rows written must be others than those read"
    if command.kind.engine in ("load", "store") and values["valid"] > config.size:
        yield f"valid must be an integer from 1 to {config.size}, not {values['valid']}"
    if left and command.kind.engine in ("compute", None) and not (command.opcode == "matmul" and values["add"]):
        yield f"sums of {left} rows must be added to by a matmul"
    if command.opcode == "matmul":
        yield from _problems_of_matmul(config, command, left)


def _problems_of_matmul(config: AcceleratorConfig, command: Command, left: int) -> Iterator[str]:
    values, tile = command.values, rows_of_tile(command)
    end = values["weights"] + weights_of(command, config.size)
    if tile > config.depth:
        yield f"x times y must be at most {config.depth}, not {tile}"
    if exchanges(command):
        fed = rows_fed(command)
        if not 0 <= fed.min() <= fed.max() < config.weights:
            yield f"weights read must be from 0 to {config.weights - 1}, not from {fed.min()} to {fed.max()}"
        if values["add"] or not values["emit"] or command.levels["n"].trips > 1:
            yield "a matmul with exchange must have emit, no add, and n = 1"
    elif end > config.weights:
        yield f"weights must end before row {config.weights}, not {end}"
    if values["add"] and tile != left:
        yield f"a matmul with add must have the x times y of the one before, {left}, not {tile}"
    if values["add"] and values["bias"]:
        yield "a matmul must have bias or add, not both"
    if not values["emit"] and (values["relu"] or values["clip"]):
        yield "a matmul with relu or clip must have emit"
    if command.levels["n"].trips > 1 and (values["add"] or not values["emit"]):
        yield f"n must be 1 in a matmul with add or without emit, not {command.levels['n'].trips}"
    if values["high"] > BF16.overflow:
        yield f"high must be a pattern from 0 to {BF16.overflow:04X}, not {values['high']:04X}"
