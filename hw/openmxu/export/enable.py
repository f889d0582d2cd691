"""A clock enable for a design in RTLIL: a clock edge has no effect while the enable is low.

::

                   ┌─────┐                                 ┌──────┐
    D, reset ────▶ │ dff │ ──▶ Q         D, reset ───────▶ │ dffe │ ──▶ Q       every register: the mux of its
        clk ─────▶ │>    │           clk, clk_en ────────▶ │>     │             synchronous reset is before it
                   └─────┘                                 └──────┘

    en ──────────▶ memory             en and clk_en ─────▶ memory              every port of a memory

It is added to the text, where all registers are of one kind: none can be left out by mistake. An enable that Amaranth
inserts into a component would not stop resets, and would not reach modules that the export has written separately.
"""

import re
from collections.abc import Collection

from openmxu.export.rtlil import MODULE, PORT

_CELL = re.compile(r"^  cell \\?(\S+) (\S+)\n(.*?)^  end$", re.MULTILINE | re.DOTALL)
_REGISTER = "$dff"
_MEMORY = ("$memrd_v2", "$memwr_v2")
_ITEM = re.compile(r"(?:(\d+)'[01x]+|([\\$]\S+))(?: \[(\d+)(?::(\d+))?\])?")
"""A part of a connection: a constant, or a wire or bits of it."""


def enable_port(text: str, top: str) -> str:
    """Name of a design's enable, derived from its clock's: ``clk_en``, or AXI's ``aclken``."""
    return "aclken" if "aclk" in PORT.findall(_modules(text)[top]) else "clk_en"


def enable_clock(text: str, top: str, memories: Collection[str] = ()) -> str:
    """Give a design a clock enable, an input with the name from :func:`enable_port`.

    While it is low, no register and no memory changes, reset or not. It enables all clocks that the design has.
    """
    modules, enable = _modules(text), enable_port(text, top)
    clocked = _clocked(modules, memories)
    if top not in clocked:
        raise ValueError("clock_enable must be False for a design without registers, not True")
    for name in clocked:
        if re.search(rf"^  wire .*\\{enable}$", modules[name], re.MULTILINE):
            raise ValueError(f"clock_enable must be False for a design with a signal called {enable}, not True")

    def change(match: re.Match[str]) -> str:
        return _Enabled(enable, clocked, memories).module(match[0]) if match[1] in clocked else match[0]

    return MODULE.sub(change, text)


def _modules(text: str) -> dict[str, str]:
    return {match[1]: match[0] for match in MODULE.finditer(text)}


def _clocked(modules: dict[str, str], memories: Collection[str]) -> set[str]:
    """Modules with something to enable, in themselves or in their instances."""
    cells = {name: {match[1] for match in _CELL.finditer(module)} for name, module in modules.items()}
    clocked = {name for name in cells if "    connect \\CLK " in modules[name] or cells[name] & {*memories}}
    while more := {name for name in cells if cells[name] & clocked} - clocked:
        clocked |= more
    return clocked.difference(memories)


class _Enabled:
    """Adds the enable to one module."""

    def __init__(self, enable: str, clocked: Collection[str], memories: Collection[str]) -> None:
        self._enable = enable
        self._clocked = clocked
        self._memories = memories
        self._widths: dict[str, int] = {}
        self._gates: dict[str, str] = {}

    def module(self, text: str) -> str:
        """The module with the port, and with the enable at its registers, memories and instances."""
        self._widths = {
            name: int(width) for width, name in re.findall(r"^  wire width (\d+) .*?(\S+)$", text, re.MULTILINE)
        }
        head, _, body = text.partition("\n")
        port = f"  wire width 1 input {len(PORT.findall(text))} \\{self._enable}"
        return f"{head}\n{port}\n{_CELL.sub(self._cell, body)}"

    def _cell(self, match: re.Match[str]) -> str:
        kind, name, body = match[1], match[2], match[3]
        if kind == _REGISTER:
            return f"  cell $dffe {name}\n    parameter \\EN_POLARITY 1\n{body}    connect \\EN \\{self._enable}\n  end"
        if kind in self._clocked:
            return f"  cell \\{kind} {name}\n{body}    connect \\{self._enable} \\{self._enable}\n  end"
        if kind in self._memories:
            return self._gate(match[0], r"\w+_en")
        if kind in _MEMORY:
            return self._gate(match[0], "EN") if "parameter \\CLK_ENABLE 1\n" in body else match[0]
        if "connect \\CLK " in body:
            raise ValueError("clock_enable must be False for a design with asynchronous resets, not True")
        return match[0]

    def _gate(self, cell: str, ports: str) -> str:
        """The cell with these ports low while the enable is low; the new gates come before it."""
        known = len(self._gates)
        cell = re.sub(
            rf"^(    connect \\(?:{ports})) (.*)$",
            lambda match: f"{match[1]} {_ITEM.sub(self._gated, match[2])}",
            cell,
            flags=re.MULTILINE,
        )
        return "".join([*list(self._gates.values())[known:], cell])

    def _gated(self, match: re.Match[str]) -> str:
        """A connected item, low while the enable is low: a slice bit by bit, as each may enable a part of a word."""
        item, constant, wire, high, low = match.group(0, 1, 2, 3, 4)
        if high is None:
            return self._wire(item, int(constant) if constant else self._widths[wire])
        bits = [self._wire(f"{wire} [{bit}]", 1) for bit in range(int(high), int(low or high) - 1, -1)]
        return bits[0] if len(bits) == 1 else f"{{ {' '.join(bits)} }}"

    def _wire(self, item: str, width: int) -> str:
        """The wire behind the gate of an item; an item has one gate, however often it is connected."""
        gated = f"${self._enable}${list(self._gates).index(item) if item in self._gates else len(self._gates)}"
        self._gates[item] = (
            f"  wire width {width} {gated}\n  cell $mux {gated}$mux\n    parameter \\WIDTH {width}\n"
            f"    connect \\A {width}'{'0' * width}\n    connect \\B {item}\n"
            f"    connect \\S \\{self._enable}\n    connect \\Y {gated}\n  end\n\n"
        )
        return gated
