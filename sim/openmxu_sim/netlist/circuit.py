"""A design's logic as a graph of words; equal words are made once."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce

from openmxu_sim.netlist.delays import find_delays
from openmxu_sim.netlist.rtlil import HIGH, LOW, Bit, Box, Memory, NetlistError, RtlilCell, flatten, hollow_modules


@dataclass(frozen=True)
class Piece:
    """Adjacent bits of a joined word."""

    node: "Node | None"
    """Word that the bits come from; ``None``: a constant."""
    start: int
    """Lowest of the bits in that word, or the value of the constant."""
    width: int
    """Number of bits."""
    repeated: bool = False
    """Whether all bits are the one bit ``start``."""


@dataclass(frozen=True, eq=False)
class Node:
    """A word, and the operation that makes it."""

    op: str
    """``"input"``, ``"register"``, ``"read"`` (a memory's output register), with their ``name``;
    ``"join"``: of ``pieces``, lowest first; ``"not"``, ``"and"``, ``"or"``, ``"xor"``, ``"add"``, ``"sub"``,
    ``"mul"``, ``"choose"`` (the second where the first is high, else the third), ``"any"``, ``"all"``,
    ``"parity"``, ``"equal"``, ``"less"`` (unsigned)."""
    operands: tuple["Node", ...]
    """As wide as the result, except the first of ``"choose"``, which is a bit, and operands of operations that give
    a bit."""
    width: int
    """Width in bits."""
    name: str
    pieces: tuple[Piece, ...]
    """See ``op``."""
    bound: int
    """Bits from this place on are low."""


@dataclass(frozen=True)
class Register:
    """A register: its name, width, initial value, and next value."""

    name: str
    width: int
    initial: int
    bits: tuple[Bit, ...]
    cycles: int = 1
    """Cycles until it shows a value, which goes through as many registers."""


@dataclass(frozen=True)
class Read:
    """A memory's read port with a register behind it: its name, memory, and bits of enable and address."""

    name: str
    memory: Memory
    enable: Bit
    address: tuple[Bit, ...]


@dataclass(frozen=True)
class Write:
    """A memory's write port."""

    memory: Memory
    enable: Bit
    address: tuple[Bit, ...]
    data: tuple[Bit, ...]


class Circuit:
    """A module of an RTLIL text, with all modules in it.

    Without ``resets`` the reset input is taken as low: registers begin with the values that a reset would give them.
    Wires inside that are ``watched`` are outputs, too, with _ in place of dots. Of modules without content, those with
    the ports of a memory are memories. What others give is an input, what they take an output: PATH_PORT.
    """

    def __init__(self, rtlil: str, top: str, *, resets: bool = False, watched: Collection[str] = ()) -> None:
        self._flat = flatten(rtlil, top, boxes=hollow_modules(rtlil))
        self._low = () if resets else self._flat.inputs.get("rst", ())
        left_out = ("clk",) if resets else ("clk", "rst")
        self.inputs = {name: len(bits) for name, bits in self._flat.inputs.items() if name not in left_out}
        self.outputs = dict(self._flat.outputs)
        wires = {name: range(first, first + width) for first, width, name in self._flat.wires}
        self.outputs |= {name.replace(".", "_"): tuple(wires[name]) for name in watched}
        self.ports = self._flat.inputs | self._flat.outputs
        self.memories = self._flat.memories
        self.registers: dict[str, Register] = {}
        self.reads: dict[str, Read] = {}
        self.writes: list[Write] = []
        self._nodes: dict[object, Node] = {}
        self._made: dict[int, Node | None] = {}  # by cell; None while it is being made
        self._sources: dict[Bit, tuple[Node | int, int]] = {}  # per net: node, or cell by index, and bit
        self._used: dict[int, int] = {}  # per cell: how many of its bits are used
        for name, bits in self._flat.inputs.items():
            if name in self.inputs:
                node = self._node("input", (), len(bits), name)
                self._sources |= {bit: (node, index) for index, bit in enumerate(bits)}
        for box in self._flat.boxes:
            (self._place_memory if "read_0_addr" in box.connections else self._place_box)(box)
        self._delays = {} if watched else find_delays(self._flat)
        for index, cell in enumerate(self._flat.cells):
            self._place(index, cell)
        self._measure_use()

    def _place_memory(self, box: Box) -> None:
        """Note a memory that is a module: its width, as many words as addresses, and its ports."""
        ports = box.connections
        memory = Memory(box.name, len(ports["read_0_data"]), 1 << len(ports["read_0_addr"]))
        self.memories[box.name] = memory
        for port in sorted(name.removesuffix("_en") for name in ports if name.endswith("_en")):
            enable, address, data = (ports[f"{port}_{part}"] for part in ("en", "addr", "data"))
            if port.startswith("read"):
                name = self._call(data[0])
                self.reads[name] = Read(name, memory, enable[0], address)
                self._drive(data, self._node("read", (), len(data), name))
            else:
                self.writes.append(Write(memory, enable[0], address, data))

    def _place_box(self, box: Box) -> None:
        """Make ports of a module that is elsewhere."""
        path = box.name.replace(".", "_")
        for port, bits in box.connections.items():
            if port in box.interface.outputs:
                name = f"{path}_{port}"
                self.inputs[name] = len(bits)
                self._drive(bits, self._node("input", (), len(bits), name))
            elif port not in ("clk", "rst"):
                self.outputs[f"{path}_{port}"] = bits

    def _place(self, index: int, cell: RtlilCell) -> None:
        """Note the bits that a cell drives."""
        ports = cell.connections
        if cell.type in ("$dff", "$memrd_v2", "$memwr_v2"):
            if ports["CLK"] != self._flat.inputs["clk"] and self._root(ports["CLK"][0]) != self._flat.inputs["clk"][0]:
                raise NetlistError(f"clock of {cell.name} must be the port clk")
            if cell.parameters["CLK_POLARITY"] != 1:
                raise NetlistError(f"clock of {cell.name} must count at rising edges")
        if cell.type == "$dff":
            name = self._call(ports["Q"][0])
            shown, data, cycles = ports["Q"], ports["D"], 1
            if cell.name in self._delays:
                width = self._delays[cell.name]
                cycles = len(shown) // width
                shown, data = shown[-width:], data[:width]
            initial = sum(self._flat.initial.get(bit, 0) << offset for offset, bit in enumerate(shown))
            self.registers[name] = Register(name, len(shown), initial, data, cycles)
            self._drive(shown, self._node("register", (), len(shown), name))
        elif cell.type == "$memrd_v2":
            if cell.parameters["CLK_ENABLE"] != 1 or cell.parameters["TRANSPARENCY_MASK"] != 0:
                raise NetlistError(f"read port {cell.name} must have a register and show what was there before a write")
            name = self._call(ports["DATA"][0])
            memory = self.memories[str(cell.parameters["MEMID"])]
            self.reads[name] = Read(name, memory, ports["EN"][0], ports["ADDR"])
            self._drive(ports["DATA"], self._node("read", (), len(ports["DATA"]), name))
        elif cell.type == "$memwr_v2":
            if len({self._root(bit) for bit in ports["EN"]}) != 1:
                raise NetlistError(f"write port {cell.name} must write whole words")
            self.writes.append(
                Write(self.memories[str(cell.parameters["MEMID"])], ports["EN"][0], ports["ADDR"], ports["DATA"])
            )
        elif cell.type == "$meminit_v2":
            if HIGH in ports["DATA"]:
                raise NetlistError(f"memory {cell.parameters['MEMID']} must be empty at first")
        elif cell.type in _CELLS:
            self._sources |= {bit: (index, offset) for offset, bit in enumerate(ports["Y"])}
        else:
            raise NetlistError(f"cell {cell.name} has the unsupported type {cell.type}")

    def _drive(self, bits: Sequence[Bit], node: Node) -> None:
        self._sources |= {bit: (node, index) for index, bit in enumerate(bits)}

    def _call(self, bit: Bit) -> str:
        """Return a unique name for a register, after its net."""
        name = self._flat.name_of(bit).partition("[")[0]
        taken = {*self.registers, *self.reads}
        return name if name not in taken else f"{name}_{bit}"

    def _root(self, bit: Bit) -> Bit:
        bit = self._flat.root(bit)
        return LOW if bit in self._low else bit

    def _measure_use(self) -> None:
        """Count the low bits of each cell's output that are used; sums, for example, are wider than their uses."""
        waiting = [bit for bits in self.outputs.values() for bit in bits]
        waiting += [
            bit
            for cell in self._flat.cells
            if cell.type in ("$dff", "$memrd_v2", "$memwr_v2")
            for port, bits in cell.connections.items()
            if port not in ("Q", "CLK")
            for bit in bits
        ]
        waiting += [bit for read in self.reads.values() for bit in (read.enable, *read.address)]
        waiting += [bit for write in self.writes for bit in (write.enable, *write.address, *write.data)]
        while waiting:
            index, offset = self._sources.get(self._root(waiting.pop()), (None, 0))
            if isinstance(index, int) and offset >= self._used.get(index, 0):
                self._used[index] = offset + 1
                cell = self._flat.cells[index]
                for port, bits in cell.connections.items():
                    if port != "Y":
                        # In these cells, low bits of the result depend on low bits of the operands alone.
                        narrow = cell.type in _FROM_BELOW and port in "AB"
                        waiting += bits[: offset + 1] if narrow else bits

    # Words

    def word(self, bits: Sequence[Bit], *, width: int | None = None, signed: bool = False) -> Node:
        """Return the word that bits make, extended or cut to ``width``."""
        bits = tuple(bits)
        if width is not None:
            fill = bits[-1] if signed and bits else LOW
            bits = (*bits[:width], *(fill,) * (width - len(bits)))
        pieces: list[Piece] = []
        for bit in bits:
            self._append(pieces, self._piece(bit))
        return self._join(pieces)

    def _piece(self, bit: Bit) -> Piece:
        """Return a single bit as a piece of the word that it comes from."""
        root = self._root(bit)
        if root < 0:
            return Piece(None, int(root == HIGH), 1)
        if root not in self._sources:
            raise NetlistError(f"net {self._flat.name_of(bit)} has no driver")
        source, offset = self._sources[root]
        return find_bit(self._make(source) if isinstance(source, int) else source, offset)

    @staticmethod
    def _append(pieces: list[Piece], piece: Piece) -> None:
        """Add a single bit above ``pieces``, by extending the last of them where it fits."""
        if pieces:
            last = pieces[-1]
            if last.node is None and piece.node is None:
                pieces[-1] = Piece(None, last.start | piece.start << last.width, last.width + 1)
                return
            if last.node is piece.node is not None:
                if not last.repeated and piece.start == last.start + last.width:
                    pieces[-1] = Piece(last.node, last.start, last.width + 1)
                    return
                if piece.start == last.start and (last.repeated or last.width == 1):
                    pieces[-1] = Piece(last.node, last.start, last.width + 1, repeated=True)
                    return
        pieces.append(piece)

    def _join(self, pieces: Sequence[Piece]) -> Node:
        if len(pieces) == 1 and not pieces[0].repeated:
            [piece] = pieces
            if piece.node is not None and (piece.start, piece.width) == (0, piece.node.width):
                return piece.node
        return self._node("join", (), sum(piece.width for piece in pieces), pieces=tuple(pieces))

    def _node(
        self, op: str, operands: tuple[Node, ...], width: int, name: str = "", pieces: tuple[Piece, ...] = ()
    ) -> Node:
        known = (
            op,
            tuple(map(id, operands)),
            width,
            name,
            tuple((id(piece.node), piece.start, piece.width, piece.repeated) for piece in pieces),
        )
        if known not in self._nodes:
            self._nodes[known] = Node(op, operands, width, name, pieces, _bound(op, operands, width, pieces))
        return self._nodes[known]

    # Cells

    def _make(self, index: int) -> Node:
        """Return the word that a cell computes."""
        if index not in self._made:
            cell = self._flat.cells[index]
            self._made[index] = None
            ports = cell.connections
            width = min(len(ports["Y"]), self._used.get(index, len(ports["Y"])))
            self._made[index] = self._compute(cell.type, cell, width)
        node = self._made[index]
        if node is None:
            raise NetlistError(f"netlist must be free of loops, not run in one through {self._flat.cells[index].name}")
        return node

    def _compute(self, kind: str, cell: RtlilCell, width: int) -> Node:
        """Return the low bits of the word that a cell computes, one of the types in ``_CELLS``."""
        match kind:
            case "$not" | "$xnor" | "$logic_not" | "$ne":
                return self._invert(self._compute(_INVERTED[kind], cell, width))
            case "$pos":
                return self._operand(cell, "A", width)
            case "$neg":
                return self._negate(self._operand(cell, "A", width))
            case "$and" | "$or" | "$xor":
                return self._logic(kind[1:], cell, width)
            case "$add" | "$sub" | "$mul":
                return self._arithmetic(kind[1:], cell, width)
            case "$mux":
                words = (self.word(cell.connections[port], width=width) for port in "AB")
                return self._choose(self._operand(cell, "S"), *words)
            case "$reduce_or" | "$reduce_bool" | "$reduce_and" | "$reduce_xor":
                return self._reduce(_REDUCED[kind], self._operand(cell, "A"))
            case "$eq":
                return self._compare_equal(cell)
            case "$lt" | "$gt" | "$le" | "$ge":
                return self._compare(cell, swapped=kind in ("$gt", "$le"), inverted=kind in ("$le", "$ge"))
            case "$shl" | "$shr" | "$sshr":
                return self._shift(cell, width, left=kind == "$shl")
        return self._match(cell)

    def _operand(self, cell: RtlilCell, port: str, width: int | None = None) -> Node:
        return self.word(cell.connections[port], width=width, signed=bool(cell.parameters.get(f"{port}_SIGNED")))

    def _bitwise(self, op: str, a: Node, b: Node) -> Node:
        """And, or, exclusive or; where constants decide the result, it is decided here."""
        if op == "or":
            for one, other in ((a, b), (b, a)):
                wider = self._widen_any(one, other)
                if wider is not None:
                    return wider
        for one, other in ((a, b), (b, a)):
            value = _constant(one)
            if value == 0:
                return one if op == "and" else other
            if value == (1 << one.width) - 1 and op != "xor":
                return other if op == "and" else one
        return a if a is b and op != "xor" else self._node(op, (a, b), a.width)

    def _widen_any(self, a: Node, b: Node) -> Node | None:
        """Join an any of adjacent bits and the bit next to them into one any, as for sticky bits; else ``None``."""
        if a.op != "join" or b.op != "any" or len(a.pieces) != 1:
            return None
        [bit] = a.pieces
        [word] = b.operands
        [row] = word.pieces if len(word.pieces) == 1 else [Piece(word, 0, word.width)]
        if bit.node is None or row.node is not bit.node or row.repeated:
            return None
        if bit.start not in (row.start - 1, row.start + row.width):
            return None
        return self._reduce("any", self._join([Piece(row.node, min(bit.start, row.start), row.width + 1)]))

    def _logic(self, op: str, cell: RtlilCell, width: int) -> Node:
        return self._bitwise(op, self._operand(cell, "A", width), self._operand(cell, "B", width))

    def _arithmetic(self, op: str, cell: RtlilCell, width: int) -> Node:
        a, b = (self._operand(cell, port, width) for port in "AB")
        if width == 1:
            return self._bitwise("and" if op == "mul" else "xor", a, b)
        if _constant(b) == 0 and op in ("add", "sub"):
            return a
        return self._node(op, (a, b), width)

    def _negate(self, a: Node) -> Node:
        return a if a.width == 1 else self._node("sub", (self.word((), width=a.width), a), a.width)

    def _invert(self, a: Node) -> Node:
        return a.operands[0] if a.op == "not" else self._node("not", (a,), a.width)

    def _reduce(self, op: str, a: Node) -> Node:
        value = _constant(a)
        if value is not None:
            bits = {"any": value != 0, "all": value == (1 << a.width) - 1, "parity": value.bit_count() % 2}
            return self._node("join", (), 1, pieces=(Piece(None, int(bits[op]), 1),))
        if op == "any" and a.op == "join":  # constant zeros do not matter
            a = self._join([piece for piece in a.pieces if piece.node is not None or piece.start])
        return a if a.width == 1 else self._node(op, (a,), 1)

    def _compare(self, cell: RtlilCell, *, swapped: bool, inverted: bool) -> Node:
        width = max(len(cell.connections["A"]), len(cell.connections["B"]))
        a, b = (self._operand(cell, port, width) for port in ("BA" if swapped else "AB"))
        if cell.parameters["A_SIGNED"]:
            top = self._node("join", (), width, pieces=(Piece(None, 1 << (width - 1), width),))
            a, b = self._bitwise("xor", a, top), self._bitwise("xor", b, top)
        less = self._node("less", (a, b), 1)
        return self._invert(less) if inverted else less

    def _equal(self, a: Node, b: Node) -> Node:
        value = _constant(b)
        if value == 0:
            return self._invert(self._reduce("any", a))
        if value == (1 << a.width) - 1:
            return self._reduce("all", a)
        return self._node("equal", (a, b), 1)

    def _compare_equal(self, cell: RtlilCell) -> Node:
        width = max(len(cell.connections["A"]), len(cell.connections["B"]))
        return self._equal(self._operand(cell, "A", width), self._operand(cell, "B", width))

    def _choose(self, condition: Node, a: Node, b: Node) -> Node:
        """``b`` where the condition is high, else ``a``."""
        value = _constant(condition)
        if value is not None or a is b:
            return b if value else a
        return self._node("choose", (condition, b, a), a.width)

    def _match(self, cell: RtlilCell) -> Node:
        """Return whether a word matches one of some patterns; ``-`` matches both values."""
        matches = []
        for pattern in str(cell.parameters["PATTERNS"]).split(","):
            pairs = zip(cell.connections["A"], reversed(pattern), strict=True)
            bits = [(bit, digit) for bit, digit in pairs if digit != "-"]
            wanted = self.word([HIGH if digit == "1" else LOW for _, digit in bits])
            matches.append(self._equal(self.word([bit for bit, _ in bits]), wanted))
        return reduce(lambda a, b: self._bitwise("or", a, b), matches)

    def _shift(self, cell: RtlilCell, width: int, *, left: bool) -> Node:
        """Shift step by step: each bit of the amount shifts by a power of two, or does not."""
        bits = list(cell.connections["A"])
        fill = bits[-1] if cell.parameters["A_SIGNED"] and (cell.type == "$sshr" or left) else LOW
        room = max(len(bits), len(cell.connections["Y"]))
        value = self.word([*bits, *(fill,) * (room - len(bits))])
        fill = bits[-1] if cell.parameters["A_SIGNED"] and cell.type == "$sshr" else LOW
        for step, bit in enumerate(cell.connections["B"]):
            distance = min(1 << step, room)
            pieces = [Piece(value, distance, room - distance)] if distance < room and not left else []
            if left and distance < room:
                pieces = [Piece(None, 0, distance), Piece(value, 0, room - distance)]
            elif left:
                pieces = [Piece(None, 0, room)]
            else:
                filler = self._piece(fill)
                pieces.append(Piece(filler.node, filler.start, distance, repeated=filler.node is not None))
            value = self._choose(self.word([bit]), value, self._join(self._split(pieces)))
        return self._join(self._split([Piece(value, 0, width)]))

    def _split(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Return pieces of joined words as pieces of the words that these are joined from."""
        single: list[Piece] = []
        for piece in pieces:
            for index in range(piece.width):
                if piece.node is None:
                    self._append(single, Piece(None, piece.start >> index & 1, 1))
                else:
                    self._append(single, find_bit(piece.node, piece.start + (0 if piece.repeated else index)))
        return single


def find_bit(node: Node, offset: int) -> Piece:
    """Return a bit of a word, or of the word that it is joined from."""
    while node.op == "join":
        for piece in node.pieces:
            if offset < piece.width:
                break
            offset -= piece.width
        if piece.node is None:
            return Piece(None, piece.start >> offset & 1, 1)
        node, offset = piece.node, piece.start + (0 if piece.repeated else offset)
    return Piece(node, offset, 1)


def _constant(node: Node) -> int | None:
    """Return the value of a constant; ``None`` for other words."""
    if node.op == "join" and all(piece.node is None for piece in node.pieces):
        return sum(piece.start for piece in node.pieces)  # there is one at most
    return None


def _bound(op: str, operands: tuple[Node, ...], width: int, pieces: tuple[Piece, ...]) -> int:
    """Return the number of low bits of a word that can be high at all."""
    bounds = [operand.bound for operand in operands]
    if op == "join" and pieces:
        top = pieces[-1]
        below = width - top.width
        if top.node is None:
            return below + top.start.bit_length() if top.start else below
        return width if top.repeated else below + min(top.width, max(0, top.node.bound - top.start))
    if op == "and":
        return min(bounds)
    if op in ("or", "xor"):
        return max(bounds)
    if op == "choose":
        return max(bounds[1:])
    if op == "add":
        return min(width, max(bounds) + 1)
    if op == "mul":
        return min(width, sum(bounds))
    return width


_FROM_BELOW = ("$not", "$pos", "$neg", "$and", "$or", "$xor", "$add", "$sub", "$mul", "$mux")

_INVERTED = {"$not": "$pos", "$xnor": "$xor", "$logic_not": "$reduce_bool", "$ne": "$eq"}
"""Types of cells that compute what cells of other types do, inverted."""

_REDUCED = {"$reduce_or": "any", "$reduce_bool": "any", "$reduce_and": "all", "$reduce_xor": "parity"}

_CELLS = frozenset(
    (
        *("$pos", "$neg", "$and", "$or", "$xor", "$add", "$sub", "$mul", "$mux", "$eq", "$lt", "$gt", "$le", "$ge"),
        *("$shl", "$shr", "$sshr", "$match", *_REDUCED, *_INVERTED),
    )
)
"""Types of cells that compute a word."""
