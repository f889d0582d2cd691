# amaranth: UnusedElaboratable=no
# (a component that refuses its parameters goes unused)
"""Designs of a user's own, from files or from Python, as points of an ordinary report.

::

    .v .sv ───────────────────┐
    .vhd ───▶ ghdl ─▶ Verilog ┴▶ foreign design ─▶ checked ─▶ clock found ─┐
    Amaranth ──────────────────────────────────────────────────────────────┴▶ point

Ports and latency are not interpreted: the whole module is measured.
"""

import ast
import codecs
import importlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openmxu import yosys
from openmxu.area.subject.foreign import DOMAINS, READERS, TOP, Flat, Foreign, ForeignPoint, below, is_name, named_point
from openmxu.area.subject.points import PARTS, Text
from openmxu.export.verilog import to_rtlil
from openmxu.runtime import process
from openmxu.runtime.files import check_input, read_input

AUTO = "auto"
"""Choose the reader by the ends of names: slang for ``.sv``, Yosys's own for the rest."""

_VHDL = (".vhd", ".vhdl")

_MOST_LIST = 1 << 24
"""Largest size of a file list in bytes."""

_LIMIT = 600.0
"""Seconds after which ghdl is given up."""

_LOOKED_AT = 1 << 24
"""Bytes of a file that are looked at for the cause of a failure."""


class UnreadableError(RuntimeError):
    """A design cannot be read; the text is one line, with a tool's first error."""


@dataclass(frozen=True)
class Given:
    """A design that is to be measured."""

    files: tuple[Path, ...] = ()
    """Verilog, SystemVerilog or VHDL, in the order in which they are read."""
    top: str = ""
    """The top module."""
    include: tuple[Path, ...] = ()
    """Folders of included files."""
    defines: tuple[tuple[str, str], ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    """Macros, and parameters or generics of the top module: names with their values."""
    clock: str = ""
    """The port that is the clock; empty: the one that all flip-flops have."""
    reader: str = AUTO
    """:data:`AUTO`, or a name from :data:`openmxu.area.subject.foreign.READERS`."""
    label: str = ""
    """Name in reports; by default the top module."""
    amaranth: str = ""
    """In place of files: ``package.module:Class(arguments)``, the arguments being literals."""

    @property
    def name(self) -> str:
        """Name in reports."""
        return self.label or self.top or self.amaranth

    @property
    def is_vhdl(self) -> bool:
        """Whether its files are VHDL."""
        return {path.suffix.lower() in _VHDL for path in self.files} == {True}

    def check(self) -> None:
        """Raise a :exc:`ValueError` for an invalid field, before any tool runs."""
        if self.amaranth:
            _parsed(self.amaranth)
        else:
            self._check_files()
        is_line = re.fullmatch(r"[^\s|`](?:[^|`]{0,98}[^\s|`])?", self.name) and self.name.isprintable()
        if not is_line or self.name in PARTS:
            raise ValueError(
                f"label must be 1 to 100 printable characters without | and `, and no part of ours, not {self.name!r}"
            )

    def _check_files(self) -> None:
        if not self.files:
            raise ValueError("--verilog must have a file, or --filelist name one")
        if not is_name(self.top):
            raise ValueError(f"--top must be the name of a module, not {self.top!r}")
        for path in self.files:
            if not path.is_file():
                raise ValueError(f"--verilog must be files, and {str(path)!r} is none")
            check_input(path)
        for path in self.include:
            if not path.is_dir():
                raise ValueError(f"--include must be folders, and {str(path)!r} is none")
        if self.reader not in (AUTO, *READERS):
            raise ValueError(f"--reader must be {AUTO}, {' or '.join(READERS)}, not {self.reader!r}")
        for option, field, pairs in (("--define", "defines", self.defines), ("--param", "parameters", self.parameters)):
            for name, text in pairs:
                if not DOMAINS[field][1]({name: text}):
                    raise ValueError(f"{option} must be NAME=VALUE, the value as in 8 or 8'hff, not {name}={text}")
        if len({path.suffix.lower() in _VHDL for path in self.files}) == 2:
            raise ValueError("--verilog must be files of one language, not of VHDL and of Verilog")

    def foreign(self) -> Foreign:
        """The design for tools, which see the folder that contains all of its files."""
        there = [path.resolve() for path in (*self.files, *self.include)]
        root = Path(os.path.commonpath([path if path.is_dir() else path.parent for path in there]))
        files, include = (below(root, "files", paths) for paths in (there[: len(self.files)], there[len(self.files) :]))
        is_system = any(path.suffix.lower() == ".sv" for path in self.files)
        reader = ("slang" if is_system else "verilog") if self.reader == AUTO else self.reader
        return Foreign(
            self.name, root, files, self.top, include, dict(self.defines), dict(self.parameters), reader=reader
        )


def listed(path: Path) -> tuple[list[Path], list[Path], list[tuple[str, str]]]:
    """The files, include folders and macros of a file list; its paths are relative to its own folder."""
    try:
        lines = read_input(path, _MOST_LIST).decode().splitlines()
    except (OSError, ValueError) as error:
        raise ValueError(f"--filelist must be a text, and {str(path)!r} is none: {error}") from None
    files, include, defines = [], [], []
    for number, line in enumerate(lines, 1):
        for word in re.sub(r"(//|#).*", "", line).split():
            value = word.split("+")[-1]
            if word.startswith("+incdir+"):
                include.append(path.parent / value)
            elif word.startswith("+define+"):
                defines.append(pair(value))
            elif word.startswith(("+", "-")):
                raise ValueError(
                    f"--filelist must have paths, +incdir+ and +define+; {path}, line {number} has {word!r}"
                )
            else:
                files.append(path.parent / word)
    return files, include, defines


def pair(text: str) -> tuple[str, str]:
    """``NAME=VALUE`` as a pair; a missing value is empty."""
    name, _, value = text.partition("=")
    return name, value


def read_given(
    designs: Sequence[Given], limit: float, tell: Callable[[str], None], *, named: bool = False
) -> tuple[list[ForeignPoint], list[str]]:
    """The designs as points, and a line for each that cannot be read.

    ``named``: top modules and clocks keep their names; else these do not depend on what users call them.
    """
    points, failures = [], []
    for design in designs:
        tell(f"reading {design.name}")
        try:
            point = _of_amaranth(design) if design.amaranth else _of_files(design, limit, named)
            points.append(_named(point, design) if named else point)
        except UnreadableError as error:
            failures.append(f"{design.name}: {error}{_where(design, str(error))}")
    return points, failures


def _where(design: Given, message: str) -> str:
    """The design's files as the end of a message, if that names none of them."""
    if not design.files or any(path.name in message for path in design.files):
        return ""
    more = len(design.files) - 1
    return f" ({design.files[0]}{f' and {more} more' if more else ''})"


def _named(point: ForeignPoint, design: Given) -> ForeignPoint:
    """The point with the name of its design's top module, or of its class."""
    top = _parsed(design.amaranth)[1] if design.amaranth else design.top
    text = re.sub(rf"\\{point.top}\b", lambda _: f"\\{top}", point.rtlil())
    return replace(point, top=top, source=Text(text))


def _of_files(design: Given, limit: float, named: bool) -> ForeignPoint:
    """A design from its files."""
    with process.workspace() as work:
        if design.is_vhdl:
            design, is_ours = _from_vhdl(design, work), True  # lines of ghdl's Verilog say nothing to the user
        else:
            is_ours = False
        try:
            foreign = design.foreign()
        except ValueError as error:
            raise UnreadableError(str(error)) from None
        root = foreign.root
        try:
            flat = foreign.read_flat(limit)
            _refuse(flat._replace(log=flat.log.replace("/sources/", f"{root}/")), None if is_ours else root)
            clock = _clock(foreign, design.clock, flat.rtlil)
            return (foreign if named else replace(foreign, clock=clock)).read(limit)
        except yosys.SynthesisError as error:
            raise UnreadableError(_unread(design) or _first(str(error), root)) from None


def _unread(design: Given) -> str:
    """Name a construct of a file that Yosys's reader does not know, after it failed; empty if there is none."""
    for path in design.files:
        with path.open("rb") as file:
            text = file.read(_LOOKED_AT)
        if text.startswith(codecs.BOM_UTF8):
            return f"{path.resolve()} begins with a byte order mark: save it as UTF-8 without one"
        primitive = re.search(rb"^\s*primitive\s+(\w+)\s*\(", text, re.MULTILINE)
        if primitive is not None:
            name = primitive[1].decode()
            return f"{path.resolve()} defines the primitive {name}, which Yosys does not read: make it a module"
    return ""


def _refuse(flat: Flat, root: Path | None) -> None:
    """Refuse a design whose figures would mislead; messages name lines of files below ``root``, if it is given."""
    implicit = re.search(r"^(\S+): Warning: Identifier `\\?(\S+)' is implicitly declared", flat.log, re.MULTILINE)
    if implicit is not None:
        raise UnreadableError(f"{implicit[1]}: it declares no wire {implicit[2]}: declare it, or is it misspelt?")
    if re.search(r"\d+'[01x]*z", flat.rtlil):
        raise UnreadableError("it drives z, and there are no tri-state buffers here: give it an output and an enable")
    loop = re.search(r"found logic loop.*?wire \\?(\S+)(?: source: (\S+))?", flat.log, re.DOTALL)
    if loop is not None:
        raise UnreadableError(f"it has a combinational loop: {' at '.join(filter(None, loop.groups()))}")
    drivers = re.search(r"multiple conflicting drivers for [^.]*\.\\?(\S+):$", flat.log, re.MULTILINE)
    if drivers is not None:
        raise UnreadableError(f"it drives a wire twice: {drivers[1]}")
    undriven = re.findall(r"Wire [^\n]*?\.\\(\S+)[^\n]* is used but has no driver", flat.log)
    # Variables of SystemVerilog that nothing drives are x.
    outputs = re.findall(r"^  wire .*\boutput \d+ \\(\S+)$", flat.rtlil, re.MULTILINE)
    unknown = re.findall(r"^  connect \\(\S+) .*\d'[01x]*x", flat.rtlil, re.MULTILINE)
    for name in (*undriven, *(name for name in unknown if name in outputs)):
        location = _at(flat.rtlil, rf" *wire .*\\{re.escape(name)}", root)
        raise UnreadableError(f"nothing drives {name}{location}")
    if not flat.cells.split():
        raise UnreadableError(f"it has no gate and no register{_at(flat.rtlil, 'module .*', root)}")


def _at(rtlil: str, line: str, root: Path | None) -> str:
    """Source file and line of an item with such a line in RTLIL, as the end of a message."""
    source = r'attribute \\src "/?sources/([^":|]+):(\d+)[^"]*"\n(?: *attribute .*\n)*'
    match = re.search(f"{source}{line}$", rtlil, re.MULTILINE)
    return f" at {root}/{match[1]}:{match[2]}" if match and root else ""


def _clock(design: Foreign, wanted: str, flat: str) -> str:
    """The port that is a design's clock, from its RTLIL without hierarchy."""
    ports = re.findall(r"^  wire .*\binput \d+ .*?\\(\S+)$", flat, re.MULTILINE)
    if wanted:
        if wanted not in ports:
            raise UnreadableError(f"--clock must be an input of {design.top} ({', '.join(ports)}), not {wanted!r}")
        return wanted
    connected = re.findall(r"^    connect \\(?:CLK|RD_CLK|WR_CLK) (.*)$", flat, re.MULTILINE)
    clocks = sorted({name for signal in connected for name in re.findall(r"[\\$](\S+)", signal)})
    if len(clocks) > 1:
        raise UnreadableError(
            f"it has several clocks ({', '.join(clocks)}); --clock names the one that delays refer to"
        )
    if clocks and clocks[0] not in ports:
        raise UnreadableError(f"its clock {clocks[0]} is made inside; --clock names the input that delays refer to")
    return clocks[0] if clocks else design.clock


def _from_vhdl(design: Given, work: Path) -> Given:
    """A design in VHDL as Verilog, by ghdl."""
    ghdl = shutil.which("ghdl")
    if ghdl is None:
        raise UnreadableError("VHDL is read by ghdl, which is not installed (Debian and Ubuntu: apt install ghdl)")
    generics = [f"-g{name}={value}" for name, value in design.parameters]
    options = ["--std=08", f"--workdir={work}"]
    text = ""
    for command in (
        [ghdl, "-a", *options, *(str(path.resolve()) for path in design.files)],
        [ghdl, "--synth", *options, "--out=verilog", *generics, design.top],
    ):
        done = process.run(command, what="ghdl", limit=_LIMIT, directory=work)
        if done.code:
            raise UnreadableError(f"ghdl: {_first(done.errors or done.output, work)}")
        text = done.output
    (work / "design.v").write_text(text)
    modules = re.findall(r"^module (\w+)", text, re.MULTILINE)
    top = next((name for name in modules if name.lower() == design.top.lower()), design.top)  # VHDL ignores case
    return replace(design, files=(work / "design.v",), top=top, parameters=(), reader="verilog")


def _first(messages: str, root: Path) -> str:
    """The first error of a tool, with paths as the user knows them."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
    trap = re.search(r"wasm trap: (.+)", messages)
    if trap is not None and not errors:
        return f"Yosys stopped ({trap[1].strip()}): the design is too large or too deep for it"
    return re.sub(r"(?<![\w/])/?sources/", lambda _: f"{root}/", (errors or lines or ["no message"])[0])


def _parsed(text: str) -> tuple[str, str, list[Any], dict[str, Any]]:
    """Module, class and arguments of ``package.module:Class(arguments)``."""
    domain = f"--amaranth must be package.module:Class(arguments), the arguments literals, not {text!r}"
    module, _, call = text.partition(":")
    try:
        tree = ast.parse(call if call.endswith(")") else f"{call}()", mode="eval").body
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or not module:
            raise ValueError(domain)
        named = {node.arg: ast.literal_eval(node.value) for node in tree.keywords if node.arg is not None}
        return module, tree.func.id, [ast.literal_eval(node) for node in tree.args], named
    except (SyntaxError, ValueError):
        raise ValueError(domain) from None


def _of_amaranth(design: Given) -> ForeignPoint:
    """A component of Amaranth, whose module is found as Python finds it in the current folder."""
    module, name, arguments, named = _parsed(design.amaranth)
    known = list(sys.path)
    sys.path.append(str(Path.cwd()))
    try:
        component = getattr(importlib.import_module(module), name)(*arguments, **named)
        text = to_rtlil(component, name=TOP)
    except Exception as error:  # it is the user's code
        reason = " ".join(str(error).split())
        raise UnreadableError(f"{type(error).__name__}: {reason}") from None
    finally:
        sys.path[:] = known
    return named_point(design.name, text)
