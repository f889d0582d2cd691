"""Designs of others, described in a folder of their own, as RTLIL that is prepared like that of our parts."""

import hashlib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from openmxu import yosys
from openmxu.area.subject.points import Point, Rtlil
from openmxu.catalog import FAMILIES, Design
from openmxu.export.verilog import to_rtlil, to_verilog
from openmxu.runtime import process
from openmxu.runtime.files import read_input
from openmxu.spec.forms import AREA

DESCRIPTION = "peers.toml"
"""The file that describes a folder's designs."""

READERS = {
    "verilog": "Yosys's own reader: Verilog, and some of SystemVerilog in files that end with .sv",
    "slang": "yosys-slang, which comes with the same Yosys: SystemVerilog",
}
"""Readers of a design's files, with the languages that each reads."""

_MOST_BYTES = 1 << 20
"""Largest size of a description."""


@dataclass(frozen=True)
class Ours:
    """One of our own parts."""

    design: str
    """A key of :data:`openmxu.catalog.FAMILIES`."""
    options: tuple[tuple[str, Any], ...] = ()
    """Its parameters with their values, where they differ from the defaults."""

    @property
    def component(self) -> Any:
        """The component, the same one each time."""
        return _component(self)

    @property
    def name(self) -> str:
        """Name of its exported module, which contains all parameters."""
        return str(self.component.module_name)


@cache
def _component(ours: Ours) -> Any:
    if ours.design not in FAMILIES:
        raise ValueError(f"design must be one of {', '.join(FAMILIES)}, not {ours.design!r}")
    component = Design(ours.design, ours.design, "").build(**dict(ours.options))
    to_rtlil(component)  # Amaranth warns of components that were never elaborated; here another peer may be refused
    return component


@dataclass(frozen=True)
class Peer:
    """A design of somebody else."""

    name: str
    """Name in reports."""
    url: str
    licence: str
    version: str
    """Its source, its licence, and its version or commit."""
    notes: str
    """Its features and limits."""
    files: tuple[str, ...]
    """Its files, below the folder, in the order in which they are read."""
    top: str
    """Its top module."""
    ours: Ours
    """The part of ours that it is compared with."""
    include: tuple[str, ...] = ()
    """Folders with files that others include."""
    defines: Mapping[str, str | int] = field(default_factory=dict)
    parameters: Mapping[str, str | int] = field(default_factory=dict)
    """Macros, and parameters of the top module."""
    reader: str = "verilog"
    """A name from :data:`READERS`."""
    clock: str = "clk"
    """The port that is its clock, if it has one."""


class PeerPoint(Point):
    """A design that was read from Verilog, ours or theirs; its part is its name."""

    @property
    def name(self) -> str:
        """Name in reports."""
        return f"{self.part}, order {self.order}" if self.order else self.part

    @property
    def sha256(self) -> str:
        """Digest of its RTLIL."""
        return hashlib.sha256(self.rtlil().encode()).hexdigest()

    @property
    def is_clocked(self) -> bool:
        """Whether its top module has the port that delays refer to."""
        return re.search(r"^  wire.* input \d+ \\clk$", _module(self.rtlil(), self.top), re.MULTILINE) is not None


def read_peers(folder: Path) -> list[Peer]:
    """The designs that a folder's ``peers.toml`` describes."""
    path = folder / DESCRIPTION
    try:
        content = read_input(path, _MOST_BYTES)
    except OSError as error:
        raise type(error)(
            f"peers must be a folder with a file {DESCRIPTION}, not {str(folder)!r}: {error.strerror}"
        ) from None
    try:
        document = tomllib.loads(_decoded(content))
        tables = document.get("peer")
        if set(document) != {"peer"} or not isinstance(tables, list) or not tables:
            raise ValueError(f"must hold tables [[peer]] and nothing else, not {', '.join(document) or 'nothing'}")
        peers = [_peer(table, folder) for table in tables]
        names = [peer.name for peer in peers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"name must be given once, not a second time: {name!r}")
    except (ValueError, TypeError, RecursionError) as error:
        # TOML's errors are ValueErrors, too; their text may have several lines.
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from None
    return peers


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError("must be text in UTF-8") from None


class _Field(NamedTuple):
    """A field of a description: its domain in words, its check, and its default; without one it is required."""

    domain: str
    accepts: Callable[[Any], bool]
    default: Any = None


def _matches(pattern: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 1000 and " ".join(value.split()).isprintable()


def _is_list(accepts: Callable[[Any], bool], value: object) -> bool:
    return isinstance(value, list) and all(map(accepts, value))


def _is_table(accepts: Callable[[Any], bool], value: object) -> bool:
    return isinstance(value, dict) and all(is_name(name) and accepts(entry) for name, entry in value.items())


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31


# No word may end an argument of Yosys's script, or begin another.
is_name = _matches(r"[A-Za-z_][A-Za-z0-9_$]*")
_is_path = _matches(r"(?!/|-|.*\.\.)[A-Za-z0-9_.+/*?\[\]-]+")
_is_constant = _matches(r"(\d+'s?[bodh])?[0-9a-fA-F_]+")
is_macro = _matches(r"[A-Za-z0-9_']*")

_VALUE = 'numbers below 2**31 or constants as in "8\'hff"'
_FIELDS = {
    "name": _Field("a text", _is_text),
    "url": _Field("a text", _is_text),
    "licence": _Field("a text", _is_text),
    "version": _Field("a text", _is_text, ""),
    "notes": _Field("a text", _is_text, ""),
    "files": _Field(
        "a list of paths or patterns below the folder, of letters, digits and _.+-/*?[]",
        lambda value: _is_list(_is_path, value) and bool(value),
    ),
    "top": _Field("the name of a module", is_name),
    "against": _Field(
        'a table as in { design = "adder", subnormals = "ieee" }',
        lambda value: (
            isinstance(value, dict)
            and isinstance(value.get("design"), str)
            and all(isinstance(option, str | int) for option in value.values())
        ),
    ),
    "include": _Field("a list of folders below the folder", partial(_is_list, _is_path), []),
    "defines": _Field(
        "a table of macros with numbers or words",
        partial(_is_table, lambda value: _is_number(value) or is_macro(value)),
        {},
    ),
    "parameters": _Field(
        f"a table of {_VALUE}", partial(_is_table, lambda value: _is_number(value) or _is_constant(value)), {}
    ),
    "reader": _Field(f"one of {', '.join(READERS)}", lambda value: value in tuple(READERS), "verilog"),
    "clock": _Field("the name of a port", is_name, "clk"),
}
"""The fields of a design's description, by name."""


def _peer(table: Any, folder: Path) -> Peer:
    """A design from its table."""
    fields = dict(table) if isinstance(table, dict) else {}
    called = f"peer {fields['name']!r}" if "name" in fields else "a peer"
    try:
        for name in fields:
            if name not in _FIELDS:
                raise ValueError(f"a field must be one of {', '.join(_FIELDS)}, not {name!r}")
        values = {}
        for name, (domain, accepts, default) in _FIELDS.items():
            if name not in fields and default is None:
                raise ValueError(f"{name} must be {domain}, and is missing")
            values[name] = fields.get(name, default)
            if name in fields and not accepts(values[name]):
                raise ValueError(f"{name} must be {domain}, not {values[name]!r}")
        options = dict(values.pop("against"))
        values["ours"] = Ours(options.pop("design"), tuple(options.items()))
        own = values["ours"].name
        for name in ("name", "url", "licence", "version", "notes"):
            values[name] = " ".join(values[name].split())
        if values["name"] == own:
            raise ValueError(f"name must differ from that of our part, not {own!r}")
        values["files"] = _below(folder, "files", values["files"], Path.is_file)
        values["include"] = _below(folder, "include", values["include"], Path.is_dir)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{called}: {error}") from None
    return Peer(**values)


def _below(folder: Path, noun: str, patterns: list[str], accepts: Callable[[Path], bool]) -> tuple[str, ...]:
    """The paths that patterns match, each once. Links out of the folder are refused: tools do not see their targets."""
    root = folder.resolve()
    matches: dict[str, None] = {}
    for pattern in patterns:
        there = sorted(folder.glob(pattern)) if re.search(r"[*?\[]", pattern) else [folder / pattern]
        paths = [path for path in there if accepts(path)]
        names = [path.relative_to(folder).as_posix() for path in paths]
        if not names or not all(path.resolve().is_relative_to(root) for path in paths):
            raise ValueError(f"{noun} must be there, below {str(folder)!r}, not {pattern!r}")
        for name in names:
            if not _is_path(name):
                raise ValueError(f"{noun} must have names of letters, digits and _.+-/, not {name!r}")
        matches |= dict.fromkeys(names)
    return tuple(matches)


# From here on nothing depends on a design's author or language. Attributes for synthesis are removed: they would keep
# modules separate, or keep logic that other designs may lose.
TOP = "openmxu_design"
"""The top module, until it is named after its content."""

_ALIKE = """\
rename -top openmxu_design
{clock}chformal -remove
delete */t:$print
setattr -mod -unset keep_hierarchy -unset keep -unset hdlname -unset src
setattr -unset keep -unset hdlname -unset src
write_rtlil /job/result
"""


def read_peer(peer: Peer, folder: Path, limit: float) -> PeerPoint:
    """A design of somebody else as a point, ready for synthesis."""
    clock = "" if peer.clock == "clk" else f"cd openmxu_design\nrename {peer.clock} clk\ncd ..\n"
    script = _reading(peer) + _ALIKE.format(clock=clock)
    text = yosys.run(script, "", ["result"], sources=folder, limit=limit)["result"]
    # Names of cells contain the file and line of their source, which are not part of the design.
    text = re.sub(r"/sources/[^\s:]*(:[\d.-]+)*", "file", text)
    return named_point(peer.name, text)


def named_point(name: str, text: str) -> PeerPoint:
    """A point of RTLIL whose top module is :data:`TOP`."""
    # Made of the design itself: equal designs have equal names, and are one to the cache.
    top = f"design_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    text = re.sub(rf"\\{TOP}\b", rf"\\{top}", text)
    return PeerPoint(name, 1, None, top, lambda: text)


class Flat(NamedTuple):
    """A design without hierarchy and processes."""

    rtlil: str
    """Its text."""
    log: str
    """Yosys's log, the messages of ``check`` included."""
    cells: str
    """The cells that are left after optimisation, a line each."""


_FLATTEN = """\
proc
flatten
opt_clean
check
write_rtlil /job/result
opt -full
opt_clean -purge
select -write /job/cells t:* t:$scopeinfo t:$print %u %d
"""


def read_flat(peer: Peer, folder: Path, limit: float) -> Flat:
    """A design without hierarchy, to be checked before it is measured; see :func:`read_peer`."""
    outputs = yosys.run(_reading(peer) + _FLATTEN, "", ["result", "yosys.log", "cells"], sources=folder, limit=limit)
    return Flat(outputs["result"], outputs["yosys.log"], outputs["cells"])


@dataclass(frozen=True)
class _Own(Rtlil):
    """A part of ours that was read."""

    read: Callable[[str], PeerPoint]
    """Reads a form of it."""
    usual: PeerPoint
    """Its form for area, after which all are called."""

    def __call__(self, form: str = AREA) -> str:
        if form == AREA:
            return self.usual.rtlil()
        other = self.read(form)
        return other.rtlil().replace(other.top, self.usual.top)


def read_own(ours: Ours, limit: float) -> PeerPoint:
    """One of our parts, read in the same way: exported as Verilog and read again, in the form that a target chooses."""
    name = ours.name

    def read(form: str) -> PeerPoint:
        with process.workspace() as folder:
            (folder / f"{name}.v").write_text(to_verilog(ours.component, form=form))
            return read_peer(Peer(name, "", "", "", "", (f"{name}.v",), name, ours), folder, limit)

    usual = read(AREA)
    return replace(usual, rtlil=_Own(read, usual))


def _reading(peer: Peer) -> str:
    """The lines of a script that read a design's files and choose its top module."""
    include = "".join(f" -I/sources/{path}" for path in peer.include)
    if peer.reader == "slang":
        options = "".join(f" -D {name}={value}" for name, value in peer.defines.items())
        options += "".join(f" -G {name}={value}" for name, value in peer.parameters.items())
        files = " ".join(f"/sources/{path}" for path in peer.files)
        return (
            f"read_slang --threads 1 --ignore-assertions --top {peer.top}{options}{include} {files}\n"
            f"hierarchy -simcheck -top {peer.top}\n"
        )
    defines = "".join(f" -D{name}={value}" if value != "" else f" -D{name}" for name, value in peer.defines.items())
    lines = [
        f"read_verilog{' -sv' if path.endswith('.sv') else ''} -noassert -defer{defines}{include} /sources/{path}\n"
        for path in peer.files
    ]
    parameters = "".join(f" -chparam {name} {value}" for name, value in peer.parameters.items())
    return "".join(lines) + f"hierarchy -simcheck -top {peer.top}{parameters}\n"


def _module(rtlil: str, top: str) -> str:
    """The text of one module."""
    match = re.search(rf"^module \\{top}$.*?^end$", rtlil, re.MULTILINE | re.DOTALL)
    return match[0] if match else ""
