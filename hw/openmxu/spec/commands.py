"""Commands of the accelerator: a layer, or a stripe of one, in sixteen words.

A command walks rows of the scratchpad by nested loops, the first level innermost. A row has N words, an operand for
each row of the array. A level of so many trips visits rows that are ``stride`` apart::

    row = base + Σ index · stride                 over all levels

Words hold, in place of a stride, the step that an address takes as its level advances and all inner levels begin
again. One adder is enough for loops of any depth::

    step = stride - Σ (trips - 1) · stride        over inner levels

Commands begin in the order of the program. ``loads``, ``computes`` and ``stores`` say how many commands of an engine,
among those before this one, may be unfinished when it begins. No field can name a later command, and the oldest
unfinished command waits for none: no program stands still.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from openmxu.spec.integers import check_integer

WORDS = 16
"""Words of a command, of 32 bits."""

ANY = 15
"""As ``loads``, ``computes`` or ``stores``: any number of commands may be unfinished."""


class Field(NamedTuple):
    """A number in the words of a command: two's complement, if it may be negative."""

    word: int
    low: int
    width: int
    least: int = 0
    default: int | None = None
    """None: it must be given."""

    @property
    def most(self) -> int:
        """The largest value."""
        return (1 << self.width - (self.least < 0)) - 1

    def check(self, name: str, value: object) -> int:
        """Return a number that fits the field."""
        return check_integer(name, value, self.least, self.most)

    def read(self, words: Sequence[int]) -> int:
        """Return the number in such words."""
        number = words[self.word] >> self.low & (1 << self.width) - 1
        return number - (1 << self.width) * (self.least < 0 and number > self.most)


class Level(NamedTuple):
    """A level of nested loops."""

    trips: int = 1
    """Number of iterations."""
    stride: int = 0
    """Rows of the scratchpad from one step to the next; in a command that also writes, the rows read."""
    other: int = 0
    """The same for rows that are written; in ``load`` and ``store`` words of the memory."""


@dataclass(frozen=True)
class Kind:
    """An opcode."""

    code: int
    engine: str | None = None
    """The engine that executes it: ``"load"``, ``"compute"`` or ``"store"``."""
    fields: Mapping[str, Field] = field(default_factory=dict)
    levels: tuple[str, ...] = ()
    """Names of the levels, innermost first: words 3, 4 ... have trips and a step of each."""
    others: tuple[str, ...] = ()
    """Names of those with a second stride: words 9, 10 ... have its step."""
    other_width: int = 20
    """Bits of a step there."""

    def trips(self) -> dict[str, Field]:
        """Fields of the levels' trips."""
        return {name: Field(3 + index, 0, 12, least=1) for index, name in enumerate(self.levels)}

    def steps(self, part: int) -> dict[str, Field]:
        """Fields of the steps: the strides (1), or the second steps (2)."""
        names, word, low, width = (self.levels, 3, 12, 20) if part == 1 else (self.others, 9, 0, self.other_width)
        return {name: Field(word + index, low, width, least=-(1 << width - 1)) for index, name in enumerate(names)}


COMMON = {
    "tag": Field(0, 16, 16, default=0),
    "loads": Field(1, 0, 4, default=ANY),
    "computes": Field(1, 4, 4, default=ANY),
    "stores": Field(1, 8, 4, default=ANY),
}
"""Fields of all commands."""

_WALKED = {"reads": Field(2, 0, 16), "writes": Field(2, 16, 16)}
_MOVED = {"rows": Field(2, 0, 19), "valid": Field(2, 19, 13, least=1), "address": Field(12, 0, 32)}
_MATMUL_FLAGS = ("bias", "add", "emit", "relu", "clip", "exchange")
_FLAGS = (*_MATMUL_FLAGS, "into_weights")
_MATMUL = {
    **_WALKED,
    **{flag: Field(0, 4 + index, 1, default=0) for index, flag in enumerate(_MATMUL_FLAGS)},
    "weights": Field(12, 0, 24),
    "high": Field(13, 0, 16, default=0),
}
_MOVER = {"levels": ("x", "y", "block"), "others": ("x", "y", "block"), "other_width": 32}

KINDS = {
    "load": Kind(1, "load", {**_MOVED, "into_weights": Field(0, 4, 1, default=0)}, **_MOVER),  # type: ignore[arg-type]
    "matmul": Kind(2, "compute", _MATMUL, ("x", "y", "kx", "ky", "block", "n"), ("x", "y", "n")),
    "pool": Kind(3, "compute", _WALKED, ("kx", "ky", "x", "y", "block"), ("x", "y", "block")),
    "store": Kind(4, "store", _MOVED, **_MOVER),  # type: ignore[arg-type]
    "end": Kind(5),
}
"""All opcodes, whose codes are in bits 0 to 3 of word 0.

- ``load`` moves ``valid`` words from the memory's word ``address`` on to each row from ``rows`` on, with +0 behind
  them; ``store`` moves such words back. With ``into_weights`` the rows are those of the memory of weights.
- ``matmul`` computes, for each n, the sum over tiles (block, ky, kx) of the x · y rows that are read times the tile's
  weights. The weights lie in the order of use from row ``weights`` of their memory on: for each n two rows of biases,
  if ``bias`` (their lower halves, then their upper ones), and N rows for each tile, the last row first. The first tile
  is added to the bias, to the sums of the command before (``add``), or stands alone. With ``emit`` sums become
  operands, negative ones +0 (``relu``), larger ones ``high`` (``clip``), and are written; otherwise they stay for the
  next command. With ``exchange``, for one vector, memories exchange roles: the rows that are read lie in the memory of
  weights, and row ``weights`` of the scratchpad and those behind it are each a tile of N equal columns. Result i is
  written to word i modulo N of its row alone. With ``bias`` the first tile is ones, without a row.
- ``pool`` writes the largest words of each kx · ky rows.
- ``end`` waits for all commands and shows its tag.
"""


@dataclass(frozen=True)
class Command:
    """A command whose numbers fit their fields.

    Raises
    ------
    TypeError, ValueError
        An opcode, field or level has another name, is missing, or is outside its domain.
    """

    opcode: str
    values: Mapping[str, int] = field(default_factory=dict)
    """Numbers by name; an absent one has its default."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Levels by name; an absent one has one step."""

    def __post_init__(self) -> None:
        if self.opcode not in KINDS:
            raise ValueError(f"opcode must be one of {', '.join(KINDS)}, not {self.opcode!r}")
        fields, names = {**COMMON, **self.kind.fields}, self.kind.levels
        for name in (*self.values, *self.levels):
            if name not in (fields if name in self.values else names):
                raise ValueError(f"{self.opcode} must have fields {', '.join((*fields, *names))}, not {name}")
        missing = [name for name, place in fields.items() if name not in self.values and place.default is None]
        if missing:
            raise ValueError(f"{self.opcode} must have {', '.join(missing)}")
        values = {name: place.check(name, self.values.get(name, place.default)) for name, place in fields.items()}
        levels = {name: Level(*self.levels.get(name, ())) for name in names}
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "levels", levels)
        for name, level in levels.items():
            if level.other and name not in self.kind.others:
                raise ValueError(f"{name} must have one stride, not {level.stride}:{level.other}")
        self._numbers()

    @property
    def kind(self) -> Kind:
        """The opcode's fields."""
        return KINDS[self.opcode]

    @property
    def words(self) -> tuple[int, ...]:
        """The command in :data:`WORDS` words."""
        words = [0] * WORDS
        words[0] = self.kind.code
        for place, number in self._numbers():
            words[place.word] |= (number & (1 << place.width) - 1) << place.low
        return tuple(words)

    @classmethod
    def of_words(cls, words: Sequence[int]) -> "Command":
        """The command in such words; bits that are no field's must be 0."""
        name = next((name for name, kind in KINDS.items() if kind.code == words[0] & 15), None)
        if name is None:
            codes = ", ".join(str(kind.code) for kind in KINDS.values())
            raise ValueError(f"opcode must be one of {codes}, not {words[0] & 15}")
        kind = KINDS[name]
        values = {field: place.read(words) for field, place in {**COMMON, **kind.fields}.items()}
        trips = {level: place.read(words) for level, place in kind.trips().items()}
        strides, others = (
            _strides(trips, {level: place.read(words) for level, place in kind.steps(part).items()}) for part in (1, 2)
        )
        levels = {level: Level(count, strides[level], others.get(level, 0)) for level, count in trips.items()}
        command = cls(name, values, levels)
        wrong = next(
            (index for index, pair in enumerate(zip(words, command.words, strict=True)) if len({*pair}) > 1), None
        )
        if wrong is not None:
            raise ValueError(f"{name}'s word {wrong} must have no bits beside its fields, not {words[wrong]:08X}")
        return command

    def _numbers(self) -> list[tuple[Field, int]]:
        """All numbers of the words, with their fields, checked."""
        numbers = [(place, self.values[name]) for name, place in {**COMMON, **self.kind.fields}.items()]
        for name, place in self.kind.trips().items():
            numbers.append((place, place.check(f"trips of {name}", self.levels[name].trips)))
        for part in (1, 2):
            inner = 0
            for name, place in self.kind.steps(part).items():
                level = self.levels[name]
                numbers.append((place, place.check(f"step of {name}", level[part] - inner)))
                inner += (level.trips - 1) * level[part]
        return numbers


def _strides(trips: Mapping[str, int], steps: Mapping[str, int]) -> dict[str, int]:
    """Strides of levels, innermost first, from their steps."""
    strides, inner = {}, 0
    for name, step in steps.items():
        strides[name] = step + inner
        inner += (trips[name] - 1) * strides[name]
    return strides


def assemble(text: str) -> list[Command]:
    """Commands from text, one in each line: ``matmul reads=0 writes=960 weights=0 x=28:1:1 y=28:30:30 emit loads=0``.

    A level is ``trips:stride``, or ``trips:stride:other``; a flag stands for itself; ``#`` begins a comment.

    Raises
    ------
    ValueError
        A line is no command; it names the line.
    """
    commands = []
    for number, line in enumerate(text.splitlines(), 1):
        opcode, *parts = line.partition("#")[0].split() or [""]
        if not opcode:
            continue
        values: dict[str, int] = {}
        levels: dict[str, Level] = {}
        try:
            for part in parts:
                name, equals, value = part.partition("=")
                if name in values or name in levels:
                    raise ValueError(f"{name} must be given once")
                if name in KINDS.get(opcode, KINDS["end"]).levels:
                    levels[name] = Level(*_numbers(name, value, "trips:stride:other", most=3))
                else:
                    [values[name]] = (1,) if name in _FLAGS and not equals else _numbers(name, value, "an integer")
            commands.append(Command(opcode, values, levels))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return commands


def _numbers(name: str, text: str, domain: str, most: int = 1) -> tuple[int, ...]:
    """The integers of a text, separated by colons."""
    if not re.fullmatch(rf"-?\d{{1,10}}(:-?\d{{1,10}}){{0,{most - 1}}}", text, re.ASCII):
        raise ValueError(f"{name} must be {domain}, not {text!r}")
    return tuple(map(int, text.split(":")))


def disassemble(commands: Iterable[Command]) -> str:
    """The text of commands: :func:`assemble` gives the same ones. What is absent there has its default."""
    return "".join(f"{' '.join(_parts(command))}\n" for command in commands)


def _parts(command: Command) -> Iterator[str]:
    yield command.opcode
    for name, place in {**COMMON, **command.kind.fields}.items():
        value = command.values[name]
        if value != place.default:
            yield name if name in _FLAGS else f"{name}={value}"
    for name, level in command.levels.items():
        if level != Level():
            yield f"{name}={':'.join(map(str, level if level.other else level[:2]))}"
