"""Cell libraries in Liberty form: as much of them as an area report needs."""

import hashlib
import importlib.resources
import itertools
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from openmxu.cells.doubts import MOST_INPUTS, NAND, Gate, smaller_than_what_they_contain
from openmxu.runtime.files import read_unpacked

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
    """The library as Yosys, ABC and OpenSTA are given it: :meth:`Group.lines`."""
    sha256: str
    """Digest of the file, unpacked."""
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

    @cached_property
    def text_sha256(self) -> str:
        """Digest of ``text``, on which results depend."""
        return hashlib.sha256(self.text).hexdigest()


def generic_library() -> Library:
    """The project's own small library; areas in NAND2 equivalents, from transistor counts."""
    resource = importlib.resources.files("openmxu.cells").joinpath("generic.lib")
    return parse_library(resource.read_bytes(), "generic.lib")


def read_library(path: Path) -> Library:
    """Read a Liberty file, plain or compressed with gzip."""
    try:
        text = read_unpacked(path, _MOST)
    except OSError as error:
        raise OSError(f"liberty must be a readable file, not {str(path)!r}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"liberty: {error}") from None
    return parse_library(text, str(path))


def parse_library(text: bytes, source: str) -> Library:
    """Parse the text of a Liberty library."""
    # Liberty is ASCII; Latin-1 accepts any other bytes in comments.
    groups = parse_groups(text.decode("latin-1"), source)
    if len(groups) != 1 or groups[0].kind != "library":
        raise ValueError(f"{source!r} must contain exactly one Liberty library")
    library = groups[0]
    cells = [g for g in library.groups if g.kind == "cell"]
    twice = [name for name, number in Counter(cell.name for cell in cells).items() if number > 1]
    if twice:
        raise ValueError(f"liberty must have cells of different names, not a second {twice[0]!r} ({source!r})")
    cells = [cell for cell in cells if cell.attributes.get("dont_use") != "true"]
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
        text="\n".join([*library.lines(), ""]).encode("latin-1"),
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

_BOM = "\xef\xbb\xbf"
"""The mark, in UTF-8, that some editors put before a text; files that were joined have it inside, too."""

_TOKEN = re.compile(
    r"""
    (?P<word> (?: [^\s{}();:,"/\\[\x80-\xff]+ | \[[\w:\ ]*\] | \[ | /(?![/*]) | \\(?![ \t]*\n) )+ )
    | (?P<string> "(?:[^"\\]|\\.)*" )
    | (?P<blank> //[^\n]* | /\*.*?(?:\*/|\Z) | \\[ \t]*\n )  # a comment without an end is scanned once
    | (?P<sign> [\n{}();:,] )
    | (?P<odd> \S )
    """,
    re.DOTALL | re.ASCII | re.VERBOSE,
)
_PLAIN = re.compile(r"[\w.+-]+", re.ASCII)
_MISREAD = re.compile(r'\\\n|\n|\\"|[{}]|/(?=\\*[/*])')
"""Text inside a string that other readers take for its end, or for a group or a comment."""
_SINGLE = re.compile(r"values|index_\d|capacitive_load_unit")
"""Lists that a group has once."""
_DEEPEST = 32
"""The most groups around a statement: Liberty has seven."""


@dataclass
class Group:
    """``kind (name, ...) { attributes and groups }``."""

    kind: str
    names: list[str]
    """The names in parentheses before the brace."""
    attributes: dict[str, str] = field(default_factory=dict)
    """``name : value;``, the last of each name."""
    lists: dict[str, list[str]] = field(default_factory=dict)
    """``name (value, ...);``, the last of each name."""
    groups: list["Group"] = field(default_factory=list)
    """The groups inside the braces."""
    contents: dict[str, "str | Group"] = field(default_factory=dict)
    """All of these in their order, attributes and lists as text; of those that count once, the last."""

    @property
    def name(self) -> str:
        """The first of the names."""
        return self.names[0] if self.names else ""

    def add(self, name: str, sign: str, *words: str) -> bool:
        """Add an attribute or a list; returns whether the words are one."""
        values = [word.strip('"') for word in words if word != ","]
        if name == "include_file" or (sign == ":" and ":" in words):
            return False  # another file, of which no digest tells; or two attributes without a semicolon in between
        if sign == ":":
            self.attributes[name] = value = " ".join(values)
            self._put(name, f"{name} : {_quoted(words[0] if len(words) == 1 else value)};")
        elif sign == "(" and words[-1:] == (")",):
            self.lists[name] = values[:-1]
            text = f"{name} ({_listed(words[:-1])});"
            self._put(name if _SINGLE.fullmatch(name) else text, text)
        else:
            return False
        return True

    def hold(self, group: "Group") -> None:
        """Add a group."""
        self.groups.append(group)
        self._put(f"{len(self.groups)}{{", group)

    def _put(self, key: str, content: "str | Group") -> None:
        self.contents.pop(key, None)
        self.contents[key] = content

    def lines(self) -> Iterator[str]:
        """The group as text that all readers of Liberty take alike: a statement a line, no comments, nothing twice."""
        yield f"{self.kind} ({_listed(self.names)}) {{"
        # ABC does not look at the value of dont_use.
        ignored = self.attributes.get("dont_use", "true") != "true"
        for name, content in self.contents.items():
            if isinstance(content, Group):
                yield from content.lines()
            elif not (ignored and name == "dont_use"):
                yield content
        yield "}"


def _cleaned(token: str) -> list[str]:
    """A string, or a word with escaped characters, as all readers take it alike; none of a backslash alone."""
    return [text for text in [_MISREAD.sub(" ", token).replace("\\", "")] if text]


def _quoted(word: str) -> str:
    return word if word.startswith('"') or _PLAIN.fullmatch(word) else f'"{word}"'


def _listed(words: Iterable[str]) -> str:
    return ", ".join(_quoted(word) for word in words if word != ",")


def parse_groups(text: str, source: str) -> list[Group]:
    """The groups at the top of a Liberty text."""
    return _LibertyReader(text.replace(_BOM, "").replace("\r\n", "\n").replace("\r", "\n"), source).groups()


class _LibertyReader:
    """Reads a Liberty text, whose lines end with a line feed."""

    def __init__(self, text: str, source: str) -> None:
        self._text, self._source = text, source
        self._open = [Group("", [])]
        self._words: list[str] = []
        self._at = 0

    def groups(self) -> list[Group]:
        """The groups at the top."""
        words = self._words
        for match in _TOKEN.finditer(self._text):
            self._at, kind, token = match.start(), match.lastgroup, match.group()
            if kind in ("word", "string"):
                if words[-1:] == [")"] and words[1:2] == ["("]:
                    self._end()  # a list whose semicolon is missing
                words += [token] if kind == "word" and "\\" not in token else _cleaned(token)
            elif kind == "odd":
                what = "a string without an end" if token == '"' else "a character outside of strings that is not ASCII"
                raise self._malformed(what)
            elif kind == "blank":
                if token.startswith("/*") and not (len(token) > 3 and token.endswith("*/")):
                    raise self._malformed("a comment without an end")
            elif token == "{":
                self._begin()
            elif token in ";}":
                self._end()
                if token == "}":
                    self._close()
            elif token != "\n":
                words.append(token)
            elif len(words) > 2 and words[1] == ":":
                self._end()  # not every library ends an attribute with a semicolon
        self._at = len(self._text)
        self._end()
        if len(self._open) > 1:
            raise self._malformed(f"'{self._open[-1].kind}' without an end")
        return self._open[0].groups

    def _malformed(self, what: str) -> ValueError:
        line = self._text.count("\n", 0, self._at) + 1
        return ValueError(f"liberty must be a well-formed Liberty file, not {self._source!r}: line {line}: {what}")

    def _begin(self) -> None:
        words = self._words
        if len(words) < 3 or words[1] != "(" or words[-1] != ")":
            raise self._malformed("'{' without a group name before it")
        if len(self._open) > _DEEPEST:
            raise self._malformed(f"more than {_DEEPEST} groups inside each other")
        group = Group(words[0], [word.strip('"') for word in words[2:-1] if word != ","])
        # Pins that are described together become pins with the same contents.
        for names in [[name] for name in group.names] if group.kind == "pin" else [group.names]:
            self._open[-1].hold(replace(group, names=names))
        self._open.append(group)
        words.clear()

    def _end(self) -> None:
        words = self._words
        # Around the library anything is passed over, and OpenSTA's variables everywhere.
        is_inside = len(self._open) > 1 and words[1:2] != ["="]
        if words and is_inside and not (len(words) > 1 and self._open[-1].add(*words)):
            raise self._malformed(f"{words[0]!r} without ':' or a list in parentheses behind it")
        words.clear()

    def _close(self) -> None:
        if len(self._open) == 1:
            raise self._malformed("'}' without a group to close")
        self._open.pop()


def _area(cell: Group, source: str) -> float:
    area = cell.attributes.get("area", "0")
    try:
        value = math.nan if "_" in area else float(area)  # Yosys reads "1_0" as 1
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
