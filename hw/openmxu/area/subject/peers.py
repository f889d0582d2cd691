"""Published designs, described in a folder of their own, and the parts of ours that they are compared with."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from openmxu.area.subject.foreign import DOMAINS, Foreign, ForeignPoint, below
from openmxu.catalog import FAMILIES, Design
from openmxu.export.verilog import to_rtlil, to_verilog
from openmxu.runtime import process
from openmxu.runtime.files import read_input
from openmxu.spec.forms import AREA

DESCRIPTION = "peers.toml"
"""The file that describes a folder's designs."""

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

    def read(self, limit: float) -> ForeignPoint:
        """The part, read as a foreign design is: exported as Verilog, in the form that a target chooses."""
        usual = self.read_form(AREA, limit)
        return replace(usual, source=_Exported(self, limit, usual))

    def read_form(self, form: str, limit: float) -> ForeignPoint:
        """One form of it."""
        with process.workspace() as folder:
            (folder / f"{self.name}.v").write_text(to_verilog(self.component, form=form))
            return Foreign(self.name, folder, (f"{self.name}.v",), self.name).read(limit)


@dataclass(frozen=True)
class _Exported:
    """The forms of a part of ours, all of which are called after that for area."""

    ours: Ours
    limit: float
    usual: ForeignPoint

    def __call__(self, form: str) -> str:
        other = self.usual if form == AREA else self.ours.read_form(form, self.limit)
        return other.rtlil().replace(other.top, self.usual.top)


@cache
def _component(ours: Ours) -> Any:
    if ours.design not in FAMILIES:
        raise ValueError(f"design must be one of {', '.join(FAMILIES)}, not {ours.design!r}")
    component = Design(ours.design, ours.design, "").build(**dict(ours.options))
    to_rtlil(component)  # Amaranth warns of components that were never elaborated; here another peer may be refused
    return component


@dataclass(frozen=True)
class Peer:
    """A published design."""

    design: Foreign
    ours: Ours
    """The part of ours that it is compared with."""
    url: str = ""
    licence: str = ""
    version: str = ""
    """Its source, its licence, and its version or commit."""
    notes: str = ""
    """Its features and limits."""


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
        names = [peer.design.name for peer in peers]
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


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 1000 and " ".join(value.split()).isprintable()


def _is_patterns(value: object) -> bool:
    pattern = r"(?!/|-|.*\.\.)[A-Za-z0-9_.+/*?\[\]-]+"
    return isinstance(value, list) and all(isinstance(name, str) and re.fullmatch(pattern, name) for name in value)


def _is_part(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("design"), str):
        return False
    return all(isinstance(option, str | int) for option in value.values())


_TEXT = ("a text", _is_text)
_DOMAINS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("name", "url", "licence", "version", "notes"), _TEXT),
    "files": (
        "a list of paths or patterns below the folder, of letters, digits and _.+-/*?[]",
        lambda value: _is_patterns(value) and bool(value),
    ),
    "include": ("a list of folders below the folder", _is_patterns),
    "against": ('a table as in { design = "adder", subnormals = "ieee" }', _is_part),
    **DOMAINS,
}
_REQUIRED = ("name", "url", "licence", "files", "top", "against")
"""Of the fields of a design's description, those that it must have."""


def _peer(table: Any, folder: Path) -> Peer:
    """A design from its table."""
    fields = dict(table) if isinstance(table, dict) else {}
    called = f"peer {fields['name']!r}" if "name" in fields else "a peer"
    try:
        for name in _REQUIRED:
            if name not in fields:
                raise ValueError(f"{name} must be {_DOMAINS[name][0]}, and is missing")
        for name, value in fields.items():
            if name not in _DOMAINS:
                raise ValueError(f"a field must be one of {', '.join(_DOMAINS)}, not {name!r}")
            if not _DOMAINS[name][1](value):
                raise ValueError(f"{name} must be {_DOMAINS[name][0]}, not {value!r}")
        options = dict(fields["against"])
        ours = Ours(options.pop("design"), tuple(options.items()))
        about = {
            name: " ".join(fields.get(name, "").split()) for name in ("name", "url", "licence", "version", "notes")
        }
        if about["name"] == ours.name:
            raise ValueError(f"name must differ from that of our part, not {ours.name!r}")
        files = _matching(folder, "files", fields["files"], Path.is_file)
        include = _matching(folder, "include", fields.get("include", []), Path.is_dir)
        more = {name: fields[name] for name in DOMAINS if name in fields}
        return Peer(Foreign(about.pop("name"), folder, files, include=include, **more), ours, **about)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{called}: {error}") from None


def _matching(folder: Path, noun: str, patterns: list[str], accepts: Callable[[Path], bool]) -> tuple[str, ...]:
    """The names that patterns match."""
    paths: list[Path] = []
    for pattern in patterns:
        there = sorted(folder.glob(pattern)) if re.search(r"[*?\[]", pattern) else [folder / pattern]
        matches = [path for path in there if accepts(path)]
        if not matches:
            raise ValueError(f"{noun} must be there, below {str(folder)!r}, not {pattern!r}")
        paths += matches
    return below(folder, noun, paths)
