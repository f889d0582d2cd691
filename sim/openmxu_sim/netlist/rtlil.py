"""Read RTLIL, the text in which Amaranth hands a design to Yosys, into cells and bits without hierarchy.

The format is documented in Yosys's manual ("RTLIL text representation"). What Amaranth never writes is refused.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

Bit = int
"""A net's number, or a constant."""

LOW, HIGH = -1, -2

Place = tuple[str, int] | Bit | None
"""Place at which a bit inside a module shows outside: a port and which of its bits; a constant; or nowhere."""


class NetlistError(ValueError):
    """The netlist holds something unsupported; the text says what and where."""


@dataclass(frozen=True)
class RtlilCell:
    """A cell: one of Yosys's, or ``$match``, which tells whether ``A`` matches one of the patterns ``PATTERNS``."""

    name: str
    type: str
    """Path within the design, and type."""
    parameters: Mapping[str, int | str]
    """Numbers, or texts."""
    connections: Mapping[str, tuple[Bit, ...]]
    """The bits at each port, lowest first."""


@dataclass(frozen=True)
class Interface:
    """A module as seen from outside."""

    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    """The widths of its ports. Amaranth calls ports of submodules as it likes, and gives one to several signals that
    stand side by side outside; but the signals themselves keep their names inside."""
    wires: Mapping[str, tuple[Place, ...]]
    """Places at which the bits of wires inside show, lowest first, by name."""


@dataclass(frozen=True)
class Box:
    """A module that is left as a box."""

    name: str
    type: str
    """Path within the design, and module."""
    interface: Interface
    """Ports of the module."""
    connections: Mapping[str, tuple[Bit, ...]]
    """The bits at each port, lowest first."""

    def wire(self, name: str) -> tuple[Bit | None, ...]:
        """Return the bits outside of a wire inside; ``None`` where they do not show."""
        if name in self.connections:
            return self.connections[name]
        return tuple(self.outside(place) for place in self.interface.wires[name])

    def outside(self, place: Place) -> Bit | None:
        """Return the bit outside at a place."""
        return self.connections[place[0]][place[1]] if isinstance(place, tuple) else place


@dataclass(frozen=True)
class Memory:
    """A memory: words of ``width`` bits, all of them zero initially."""

    name: str
    width: int
    depth: int


@dataclass
class Flat:
    """A design without hierarchy."""

    inputs: dict[str, tuple[Bit, ...]] = field(default_factory=dict)
    outputs: dict[str, tuple[Bit, ...]] = field(default_factory=dict)
    """The bits of each port, lowest first."""
    cells: list[RtlilCell] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    """Cells, and boxes, in no particular order."""
    memories: dict[str, Memory] = field(default_factory=dict)
    """Memories, by the name that their ports refer to."""
    initial: dict[Bit, int] = field(default_factory=dict)
    """Initial values of registers' bits; bits that are not here are 0."""
    _aliases: list[Bit] = field(default_factory=list)  # per net: itself, or what it is connected to
    wires: list[tuple[Bit, int, str]] = field(default_factory=list)  # first net, width, name; nets ascend

    def new(self, width: int) -> tuple[Bit, ...]:
        """Return new nets, which nothing drives yet."""
        first = len(self._aliases)
        self._aliases += range(first, first + width)
        return tuple(range(first, first + width))

    def name(self, bits: Sequence[Bit], name: str) -> None:
        """Name the newest nets."""
        self.wires.append((bits[0], len(bits), name))

    def name_of(self, bit: Bit) -> str:
        """Return the name of a net."""
        index = bisect_right(self.wires, bit, key=itemgetter(0)) - 1
        first, width, name = self.wires[index] if index >= 0 else (0, 0, "")
        if bit >= first + width:
            return f"net_{bit}"
        return f"{name}[{bit - first}]" if width > 1 else name

    def connect(self, targets: Sequence[Bit], sources: Sequence[Bit]) -> None:
        """Connect nets to the nets that drive them."""
        for target, source in zip(targets, sources, strict=True):
            if target < 0 or self._aliases[target] != target:
                raise NetlistError(f"net {self.name_of(target)} has two drivers")
            if target != source:
                self._aliases[target] = source

    def root(self, bit: Bit) -> Bit:
        """Return the net, or constant, that drives a net in the end."""
        while bit >= 0 and self._aliases[bit] != bit:
            bit = self._aliases[bit]
        return bit


def flatten(text: str, top: str, *, boxes: Collection[str] = ()) -> Flat:
    """Return the module ``top`` of an RTLIL text, flattened except for ``boxes``."""
    modules = _split(text)
    flat = Flat()
    module = _Module(modules, f"\\{top}", "", flat, {f"\\{name}": _look_at(modules, f"\\{name}") for name in boxes})
    for name, (direction, bits) in module.ports.items():
        (flat.inputs if direction == "input" else flat.outputs)[name[1:]] = bits
    return flat


def hollow_modules(text: str) -> list[str]:
    """Return the names of modules without content."""
    return [
        name[1:] for name, body in _split(text).items() if not re.search(r"^\s*(cell|process|connect) ", body, re.M)
    ]


def read_interface(text: str, name: str) -> Interface:
    """Return the interface of a module of an RTLIL text."""
    return _look_at(_split(text), f"\\{name}")


def _split(text: str) -> dict[str, str]:
    """Return the contents of modules, by name."""
    modules = {}
    for block in re.split(r"^module ", text, flags=re.MULTILINE)[1:]:
        name, _, body = block.partition("\n")
        modules[name.strip()] = body
    return modules


def _look_at(modules: Mapping[str, str], name: str) -> Interface:
    """Return a module's interface: its ports and the names of its nets, without the cells between them."""
    flat = Flat()
    module = _Module(modules, name, "", flat, {}, hollow=True)
    widths: dict[str, dict[str, int]] = {"input": {}, "output": {}}
    places: dict[Bit, tuple[str, int]] = {}
    for port, (direction, bits) in module.ports.items():
        widths[direction][port[1:]] = len(bits)
        for index, bit in enumerate(bits):
            places.setdefault(flat.root(bit), (port[1:], index))
    wires: dict[str, tuple[Place, ...]] = {}
    for wire, bits in module.wires.items():
        roots = (flat.root(bit) for bit in bits)
        wires[wire[1:]] = tuple(root if root < 0 else places.get(root) for root in roots)
    return Interface(widths["input"], widths["output"], wires)


class _Module:
    """A module flattened into a design; a hollow one without its cells and processes."""

    def __init__(
        self,
        modules: Mapping[str, str],
        name: str,
        path: str,
        flat: Flat,
        boxes: Mapping[str, Interface],
        *,
        hollow: bool = False,
    ) -> None:
        if name not in modules:
            raise NetlistError(f"module {name} is not there")
        self._modules = modules
        self._path = path
        self._flat = flat
        self._boxes = boxes
        self.wires: dict[str, tuple[Bit, ...]] = {}
        self.ports: dict[str, tuple[str, tuple[Bit, ...]]] = {}
        lines = [line.strip() for line in modules[name].splitlines() if line.strip()]
        self._declare(lines)
        self._place(iter(lines), hollow)

    def _declare(self, lines: Sequence[str]) -> None:
        """Read wires and memories, which may be anywhere in the text."""
        initial = None
        for line in lines:
            if line.startswith("attribute \\init "):
                initial = line.split()[2]
            elif line.startswith("wire "):
                words = line.split()
                name, width = words[-1], int(words[words.index("width") + 1]) if "width" in words else 1
                bits = self.wires[name] = self._flat.new(width)
                for direction in ("input", "output"):
                    if direction in words:
                        self.ports[name] = direction, bits
                if initial is not None:
                    values = self._parse(initial)
                    self._flat.initial |= {bit: int(value == HIGH) for bit, value in zip(bits, values, strict=True)}
                initial = None
                if name.startswith("\\") and bits:
                    self._flat.name(bits, f"{self._path}{name[1:]}")
            elif line.startswith("memory "):
                words = line.split()
                name = self._path + words[-1]
                width = int(words[words.index("width") + 1]) if "width" in words else 1
                self._flat.memories[name] = Memory(name, width, int(words[words.index("size") + 1]))
            elif not line.startswith("attribute "):
                initial = None

    def _place(self, lines: Iterator[str], hollow: bool) -> None:
        for line in lines:
            keyword, _, rest = line.partition(" ")
            if hollow and keyword in ("cell", "process"):
                self._skip(lines)
            elif keyword == "cell":
                kind, name = rest.split()
                self._cell(kind, name, lines)
            elif keyword == "process":
                values: dict[Bit, Bit] = {}  # later ones override earlier ones; some are conditional
                self._statements(lines, values)
                self._flat.connect([*values], [*values.values()])
            elif keyword == "connect":
                targets, sources = self._two(rest)
                # Amaranth gives nets a second name in this way.
                self._flat.connect(targets, sources)
            elif keyword not in ("wire", "memory", "attribute", "end"):
                raise NetlistError(f"RTLIL must be as Amaranth writes it, not {line!r}")

    def _skip(self, lines: Iterator[str]) -> None:
        """Skip a cell, or a process with all switches in it."""
        depth = 1
        for line in lines:
            depth += line.startswith("switch ") - (line == "end")
            if not depth:
                return

    def _cell(self, kind: str, name: str, lines: Iterator[str]) -> None:
        parameters: dict[str, int | str] = {}
        connections: dict[str, tuple[Bit, ...]] = {}
        for line in lines:
            words = line.split(maxsplit=2)
            if words[0] == "end":
                break
            if words[0] == "connect":
                connections[words[1][1:]] = self._parse(words[2])
            elif words[0] == "parameter":
                words = [word for word in words if word != "signed"]
                parameters[words[1][1:]] = _number(words[2])
        path = f"{self._path}{name[1:]}"
        if kind.startswith("$"):
            if "MEMID" in parameters:
                parameters["MEMID"] = self._path + str(parameters["MEMID"]).replace("\\\\", "\\")
            self._flat.cells.append(RtlilCell(path, kind, parameters, connections))
            return
        if kind in self._boxes:
            self._box(Box(path, kind[1:], self._boxes[kind], connections))
            return
        inside = _Module(self._modules, kind, f"{path}.", self._flat, self._boxes)
        for port, bits in connections.items():
            direction, nets = inside.ports[f"\\{port}"]
            self._flat.connect(*((nets, bits) if direction == "input" else (bits, nets)))

    def _box(self, box: Box) -> None:
        self._flat.boxes.append(box)
        for port, width in {**box.interface.inputs, **box.interface.outputs}.items():
            if len(box.connections.get(port, ())) != width:
                raise NetlistError(f"port {port} of {box.name} must be connected to {width} bits")
        for port in box.interface.outputs:
            for index, place in enumerate(box.interface.wires[port]):
                # The source is another port or a constant.
                source = box.outside(place)
                if place != (port, index) and source is not None:
                    self._flat.connect([box.connections[port][index]], [source])

    def _statements(self, lines: Iterator[str], values: dict[Bit, Bit]) -> str:
        """Read statements up to the end of a block; returns the line that ends it."""
        for line in lines:
            keyword, _, rest = line.partition(" ")
            if keyword == "assign":
                targets, sources = self._two(rest)
                values |= zip(targets, sources, strict=True)
            elif keyword == "switch":
                self._switch(self._parse(rest), lines, values)
            elif keyword in ("end", "case"):
                return line
            elif keyword != "attribute":
                raise NetlistError(f"RTLIL must be as Amaranth writes it, not {line!r}")
        raise NetlistError("RTLIL must not end within a process")

    def _switch(self, selector: tuple[Bit, ...], lines: Iterator[str], values: dict[Bit, Bit]) -> None:
        """Read a switch: the first case that matches decides."""
        cases: list[tuple[str, dict[Bit, Bit]]] = []
        line = next(lines)
        while line.startswith("case"):
            changed = dict(values)
            patterns = line.removeprefix("case").strip()
            line = self._statements(lines, changed)
            cases.append((patterns, changed))
        targets = [
            bit
            for bit in dict.fromkeys(bit for _, changed in cases for bit in changed)
            if any(changed.get(bit) != values.get(bit) for _, changed in cases)
        ]
        for target in targets:
            if target not in values:
                raise NetlistError(f"net {self._flat.name_of(target)} is not assigned in every case")
        decided = tuple(values[target] for target in targets)
        for patterns, changed in reversed(cases):
            chosen = tuple(changed[target] for target in targets)
            decided = self._choose(self._matches(selector, patterns), chosen, decided) if patterns else chosen
        values |= zip(targets, decided, strict=True)

    def _matches(self, selector: tuple[Bit, ...], patterns: str) -> Bit:
        if patterns == "1'1":
            return selector[0]
        [result] = self._flat.new(1)
        texts = ",".join(pattern.split("'")[1] for pattern in patterns.split(", "))
        self._flat.cells.append(RtlilCell("case", "$match", {"PATTERNS": texts}, {"A": selector, "Y": (result,)}))
        return result

    def _choose(self, condition: Bit, chosen: tuple[Bit, ...], other: tuple[Bit, ...]) -> tuple[Bit, ...]:
        result = self._flat.new(len(chosen))
        self._flat.cells.append(
            RtlilCell("case", "$mux", {"WIDTH": len(chosen)}, {"A": other, "B": chosen, "S": (condition,), "Y": result})
        )
        return result

    def _two(self, text: str) -> tuple[tuple[Bit, ...], tuple[Bit, ...]]:
        """Read two signals, one after the other."""
        tokens = text.split()
        return self._signal(tokens), self._signal(tokens)

    def _parse(self, text: str) -> tuple[Bit, ...]:
        return self._signal(text.split())

    def _signal(self, tokens: list[str]) -> tuple[Bit, ...]:
        """Return the bits of the signal at the begin of the tokens, and remove its tokens."""
        token = tokens.pop(0)
        if token == "{":
            parts = []
            while tokens[0] != "}":
                parts.append(self._signal(tokens))
            tokens.pop(0)
            return tuple(bit for part in reversed(parts) for bit in part)
        if token[0].isdigit():
            width, quote, digits = token.partition("'")
            if not quote:  # Yosys writes numbers of 32 bits so
                width, digits = "32", f"{int(token):032b}"
            if len(digits) != int(width):
                raise NetlistError(f"RTLIL must hold constants digit by digit, not {token[:40]!r}")
            # Undefined digits are 0, as registers are initially.
            return tuple(HIGH if digit == "1" else LOW for digit in reversed(digits))
        bits = self.wires[token]
        if tokens and tokens[0].startswith("["):
            high, _, low = tokens.pop(0)[1:-1].partition(":")
            return bits[int(low or high) : int(high) + 1]
        return bits


def _number(text: str) -> int | str:
    """Return a parameter's value."""
    if text.startswith('"'):
        return text[1:-1]
    _, quote, digits = text.partition("'")
    return int(digits.replace("x", "0") or "0", 2) if quote else int(text)
