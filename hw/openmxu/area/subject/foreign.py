"""Foreign designs: Verilog or SystemVerilog below a folder, read by Yosys as points that are prepared like our parts.

::

    .v .sv ─▶ Yosys or slang ─▶ clock renamed clk, wishes of the author removed ─▶ RTLIL, named after its content

From there on nothing depends on a design's author or language.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from openmxu import yosys
from openmxu.area.subject.points import Point, Text

READERS = {
    "verilog": "Yosys's own reader: Verilog, and some of SystemVerilog in files that end with .sv",
    "slang": "yosys-slang, which comes with the same Yosys: SystemVerilog",
}
"""Readers of a design's files, with the languages that each reads."""

TOP = "openmxu_design"
"""The top module, until it is named after its content."""


class ForeignPoint(Point):
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
        module = re.search(rf"^module \\{self.top}$.*?^end$", self.rtlil(), re.MULTILINE | re.DOTALL)
        return module is not None and re.search(r"^  wire.* input \d+ \\clk$", module[0], re.MULTILINE) is not None


def named_point(name: str, text: str) -> ForeignPoint:
    """A point of RTLIL whose top module is :data:`TOP`."""
    # Made of the design itself: equal designs have equal names, and are one to the cache.
    top = f"design_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return ForeignPoint(name, 1, None, top, Text(re.sub(rf"\\{TOP}\b", rf"\\{top}", text)))


class Flat(NamedTuple):
    """A design without hierarchy and processes."""

    rtlil: str
    """Its text."""
    log: str
    """Yosys's log, the messages of ``check`` included."""
    cells: str
    """The cells that are left after optimisation, a line each."""


# No word may end an argument of Yosys's script, or begin another.
def is_name(value: object) -> bool:
    """Whether a value is the name of a module, port, macro or parameter."""
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", value) is not None


def _is_macro(value: object) -> bool:
    return _is_number(value) or (isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_']*", value) is not None)


def _is_constant(value: object) -> bool:
    pattern = r"-?[0-9][0-9_]*|[0-9]+'s?[bodh][0-9a-fA-F_]+"
    return _is_number(value) or (isinstance(value, str) and re.fullmatch(pattern, value) is not None)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31


def _is_table(accepts: Callable[[object], bool], value: object) -> bool:
    return isinstance(value, dict) and all(is_name(name) and accepts(entry) for name, entry in value.items())


DOMAINS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "top": ("the name of a module", is_name),
    "clock": ("the name of a port", is_name),
    "reader": (f"one of {', '.join(READERS)}", lambda value: value in tuple(READERS)),
    "defines": ("a table of macros with numbers or words", lambda value: _is_table(_is_macro, value)),
    "parameters": (
        'a table of numbers below 2**31 or constants as in "8\'hff"',
        lambda value: _is_table(_is_constant, value),
    ),
}
"""Domains of fields of :class:`Foreign` in words, and their checks."""


def below(root: Path, noun: str, paths: Iterable[Path]) -> tuple[str, ...]:
    """Names of paths below a folder, each once. Links out of the folder are refused: tools do not see their targets."""
    names = dict.fromkeys(path.relative_to(root).as_posix() for path in paths)
    for name in names:
        if not (root / name).resolve().is_relative_to(root.resolve()):
            raise ValueError(f"{noun} must be there, below {str(root)!r}, not {name!r}")
        if not re.fullmatch(r"[A-Za-z0-9_.+/-]+", name):
            raise ValueError(f"{noun} must have names of letters, digits and _.+-/, not {name!r}")
    return tuple(names)


_ALIKE = """\
rename -top openmxu_design
{clock}chformal -remove
delete */t:$print
setattr -mod -unset keep_hierarchy -unset keep -unset hdlname -unset src
setattr -unset keep -unset hdlname -unset src
write_rtlil /job/result
"""
"""Attributes for synthesis are removed: they would keep modules separate, or keep logic that other designs may lose."""

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


@dataclass(frozen=True)
class Foreign:
    """A design in Verilog or SystemVerilog."""

    name: str
    """Name in reports."""
    root: Path
    """The folder that tools see."""
    files: tuple[str, ...]
    """Its files, below the folder, in the order in which they are read."""
    top: str
    """Its top module."""
    include: tuple[str, ...] = ()
    """Folders with files that others include."""
    defines: Mapping[str, str | int] = field(default_factory=dict)
    parameters: Mapping[str, str | int] = field(default_factory=dict)
    """Macros, and parameters of the top module."""
    reader: str = "verilog"
    """A name from :data:`READERS`."""
    clock: str = "clk"
    """The port that is its clock, if it has one."""

    def read(self, limit: float) -> ForeignPoint:
        """The design as a point, ready for synthesis."""
        clock = "" if self.clock == "clk" else f"cd openmxu_design\nrename {self.clock} clk\ncd ..\n"
        script = self._reading() + _ALIKE.format(clock=clock)
        text = yosys.run(script, "", ["result"], sources=self.root, limit=limit)["result"]
        # Names of cells contain the file and line of their source, which are not part of the design.
        return named_point(self.name, re.sub(r"/sources/[^\s:]*(:[\d.-]+)*", "file", text))

    def read_flat(self, limit: float) -> Flat:
        """The design without hierarchy, to be checked before it is measured."""
        outputs = ["result", "yosys.log", "cells"]
        found = yosys.run(self._reading() + _FLATTEN, "", outputs, sources=self.root, limit=limit)
        return Flat(*(found[name] for name in outputs))

    def _reading(self) -> str:
        """The lines of a script that read the files and choose the top module."""
        include = "".join(f" -I/sources/{path}" for path in self.include)
        if self.reader == "slang":
            options = "".join(f" -D {name}={value}" for name, value in self.defines.items())
            options += "".join(f" -G {name}={value}" for name, value in self.parameters.items())
            files = " ".join(f"/sources/{path}" for path in self.files)
            read = f"read_slang --threads 1 --ignore-assertions --top {self.top}{options}{include} {files}\n"
            return f"{read}hierarchy -simcheck -top {self.top}\n"
        defines = "".join(f" -D{name}={value}" if value != "" else f" -D{name}" for name, value in self.defines.items())
        lines = [
            f"read_verilog{' -sv' if path.endswith('.sv') else ''} -noassert -defer{defines}{include} /sources/{path}\n"
            for path in self.files
        ]
        parameters = "".join(f" -chparam {name} {value}" for name, value in self.parameters.items())
        return "".join(lines) + f"hierarchy -simcheck -top {self.top}{parameters}\n"
