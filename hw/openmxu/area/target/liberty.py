"""Cell libraries in Liberty form: as much of them as an area report needs."""

import gzip
import hashlib
import importlib.resources
import io
import itertools
import math
import operator
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from openmxu.area.target.doubts import MOST_INPUTS, NAND, Gate, smaller_than_what_they_contain

_MOST = 1 << 30
"""The largest library, in bytes: many times the largest that is known."""

_AREAS = (1e-9, 1e9)
"""Smallest and largest area of a NAND in any unit; other cells may also have 0."""

_MOST_SYMBOLS = 200
"""Symbols in the function of a cell with two inputs: it needs five."""


@dataclass(frozen=True)
class Library:
    """A cell library that gates can be mapped to."""

    name: str
    """The name in the file, other characters than letters, digits, ``_``, ``.``, ``-`` replaced."""
    text: bytes = field(repr=False, compare=False)
    """The file, unpacked."""
    sha256: str
    """Digest of ``text``."""
    nand2: str
    """Name of the smallest cell that is a 2-input NAND."""
    nand2_area: float
    """Its area, in the library's unit (µm² in most): one gate equivalent (GE)."""
    sequential: frozenset[str] = field(repr=False)
    """Names of the cells that store: flip-flops and latches."""
    timed: bool = False
    """Whether it has delays."""
    areas: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)
    """Areas of its cells, by name, in its own unit."""
    doubt: str = ""
    """The reason why statements leave it out; empty if they do not."""


def generic_library() -> Library:
    """The project's own small library; areas in NAND2 equivalents, from transistor counts."""
    resource = importlib.resources.files("openmxu.area.target").joinpath("generic.lib")
    return parse_library(resource.read_bytes(), "generic.lib")


def read_library(path: Path) -> Library:
    """Read a Liberty file, plain or compressed with gzip."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST + 1)
    except OSError as error:
        raise OSError(f"liberty must be a readable file, not {str(path)!r}: {error.strerror}") from None
    if text.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(io.BytesIO(text)) as archive:
                text = archive.read(_MOST + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"liberty must be a whole gzip file, not {str(path)!r}: {error}") from None
    if len(text) > _MOST:
        raise ValueError(f"liberty must be at most {_MOST >> 20} MiB, unpacked; {str(path)!r} is larger")
    return parse_library(text, str(path))


def parse_library(text: bytes, source: str) -> Library:
    """Parse the text of a Liberty library."""
    # Liberty is ASCII; Latin-1 accepts any other bytes in comments.
    groups = parse_groups(text.decode("latin-1"), source)
    if len(groups) != 1 or groups[0].kind != "library":
        raise ValueError(f"{source!r} must contain exactly one Liberty library")
    library = groups[0]
    cells = [g for g in library.groups if g.kind == "cell" and g.attributes.get("dont_use") != "true"]
    areas = {cell.name: _area(cell, source) for cell in cells}
    tables = ((cell.name, _table(cell, source)) for cell in cells)
    gates = [Gate(name, areas[name], table) for name, table in tables if table is not None]
    nands = [(gate.area, gate.name) for gate in gates if gate.table == NAND]
    smallest = min((nand for nand in nands if nand[0] >= _AREAS[0]), default=None)
    if smallest is None:
        raise ValueError(f"liberty must have a 2-input NAND, the unit of area; {source!r} has none")
    if not any(group.kind in ("ff", "ff_bank") for cell in cells for group in cell.groups):
        raise ValueError(f"liberty must have a flip-flop, a cell with an 'ff' group; {source!r} has none")
    return Library(
        name=re.sub(r"[^\w.-]", "_", library.name) or "library",
        text=text,
        sha256=hashlib.sha256(text).hexdigest(),
        nand2=smallest[1],
        nand2_area=smallest[0],
        sequential=frozenset(cell.name for cell in cells if any(g.kind in _STORES for g in cell.groups)),
        timed=any(
            table.kind == "cell_rise"
            for cell in cells
            for pin in cell.groups
            for timing in pin.groups
            for table in timing.groups
        ),
        areas=areas,
        doubt=_doubt(gates),
    )


_STORES = ("ff", "ff_bank", "latch", "latch_bank", "statetable")
# A comment without an end extends to the end of the text, so that nothing is scanned twice.
_TOKEN = re.compile(r'/\*.*?(?:\*/|\Z)|"(?:[^"\\]|\\.)*"|[\n{}();:,"]|[^\s{}();:,"]+', re.DOTALL)


@dataclass
class Group:
    """``kind (name, ...) { attributes and groups }``."""

    kind: str
    names: list[str]
    """The names in parentheses before the brace."""
    attributes: dict[str, str] = field(default_factory=dict)
    """``name : value;``"""
    lists: dict[str, list[str]] = field(default_factory=dict)
    """``name (value, ...);``"""
    groups: list["Group"] = field(default_factory=list)
    """The groups inside the braces."""

    @property
    def name(self) -> str:
        """The first of the names."""
        return self.names[0] if self.names else ""

    def add(self, statement: Sequence[str]) -> None:
        """An attribute, from its words."""
        if len(statement) > 2 and statement[1] == ":":
            self.attributes[statement[0]] = " ".join(statement[2:]).strip('"')
        elif len(statement) > 2 and statement[1] == "(":
            self.lists[statement[0]] = [word.strip('"') for word in statement[2:-1] if word != ","]


def parse_groups(text: str, source: str) -> list[Group]:
    """The groups at the top of a Liberty text."""
    top = Group("", [])
    open_groups = [top]
    statement: list[str] = []

    def malformed(what: str, position: int) -> ValueError:
        line = text.count("\n", 0, position) + 1
        return ValueError(f"liberty must be a well-formed Liberty file, not {source!r}: line {line}: {what}")

    for match in _TOKEN.finditer(text):
        token = match.group()
        if token.startswith("/*"):
            if len(token) < 4 or not token.endswith("*/"):
                raise malformed("a comment without an end", match.start())
            continue
        if token == "\\":
            continue
        if token == '"':
            raise malformed("a string without an end", match.start())
        if token == "{":
            if len(statement) < 3 or statement[1] != "(" or statement[-1] != ")":
                raise malformed("'{' without a group name before it", match.start())
            names = [name.strip('"') for name in statement[2:-1] if name != ","]
            group = Group(statement[0], names)
            open_groups[-1].groups.append(group)
            open_groups.append(group)
            statement = []
        # A simple attribute ends with its line, too: not every library writes the semicolon.
        elif token in (";", "}") or (token == "\n" and len(statement) > 2 and statement[1] == ":"):
            open_groups[-1].add(statement)
            statement = []
            if token == "}":
                open_groups.pop()
                if not open_groups:
                    raise malformed("'}' without a group to close", match.start())
        elif token != "\n":
            statement.append(token)
    if len(open_groups) > 1:
        raise malformed(f"'{open_groups[-1].kind}' without an end", len(text))
    return top.groups


def _area(cell: Group, source: str) -> float:
    area = cell.attributes.get("area", "0")
    try:
        value = float(area)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _AREAS[1]:
        raise ValueError(
            f"liberty must give numbers from 0 to {_AREAS[1]:.0f} as areas, not {area!r} ({cell.name} in {source!r})"
        )
    return value


def _doubt(gates: list[Gate]) -> str:
    """An error in the areas of a library, in words; empty if there is none."""
    wrong = smaller_than_what_they_contain(gates)
    if not wrong:
        return ""
    gate, part = wrong[0]
    more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return f"{gate.name} ({gate.area:g}) contains {part.name} ({part.area:g}), which is larger{more}"


def _table(cell: Group, source: str) -> tuple[bool, ...] | None:
    """A cell's truth table, if it has one output that is always driven, few inputs, and stores nothing."""
    pins = [group for group in cell.groups if group.kind == "pin"]
    inputs = [name for pin in pins if pin.attributes.get("direction") == "input" for name in pin.names]
    functions = [pin.attributes["function"] for pin in pins if "function" in pin.attributes]
    is_gate = len(functions) == 1 and 2 <= len(inputs) <= MOST_INPUTS
    stores = any(group.kind in _STORES for group in cell.groups)
    if not is_gate or stores or any("three_state" in pin.attributes for pin in pins):
        return None
    if len(re.findall(_SYMBOL, functions[0])) > _MOST_SYMBOLS:
        if len(inputs) > 2:
            return None
        raise ValueError(
            f"liberty must give functions of two inputs in at most {_MOST_SYMBOLS} symbols, not in more "
            f"({cell.name} in {source!r})"
        )
    try:
        levels = itertools.product((False, True), repeat=len(inputs))
        return tuple(evaluate(functions[0], dict(zip(inputs, row, strict=True))) for row in levels)
    except (KeyError, IndexError):
        return None  # The function reads something else than the inputs.


_SYMBOL = r"[\w.\[\]]+|[!'^*&+|()]"


def evaluate(function: str, values: Mapping[str, bool]) -> bool:
    """The value of a Liberty function. Binding from strong to weak: ``!`` and ``'``, ``^``, ``*``, ``+``."""
    known = {"0": False, "1": True, **values}
    tokens = re.findall(_SYMBOL, function)[::-1]

    def take(*wanted: str) -> bool:
        if tokens and tokens[-1] in wanted:
            tokens.pop()
            return True
        return False

    def factor() -> bool:
        if take("!"):
            return not factor()
        if take("("):
            value = disjunction()
            tokens.pop()
        else:
            value = known[tokens.pop()]
        while take("'"):
            value = not value
        return value

    def chain(operand: Callable[[], bool], combine: Callable[[bool, bool], bool], *signs: str) -> bool:
        value = operand()
        while take(*signs):
            value = combine(value, operand())
        return value

    exclusive = partial(chain, factor, operator.xor, "^")

    def conjunction() -> bool:
        value = exclusive()
        while tokens and tokens[-1] not in ("+", "|", ")"):
            take("*", "&")  # or nothing: a blank means the same
            value &= exclusive()
        return value

    def disjunction() -> bool:
        return chain(conjunction, operator.or_, "+", "|")

    return disjunction()
