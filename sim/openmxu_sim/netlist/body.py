"""The statements of a circuit's functions in C: each word once, in the order in which they depend on each other."""

from collections.abc import Collection
from typing import NamedTuple

from openmxu_sim.netlist.circuit import Circuit, Node, Piece, find_bit
from openmxu_sim.netlist.rtlil import NetlistError

LIMB = 32


class Body:
    """Statements of a function; ``@`` stands for the copy that they work on."""

    def __init__(self, circuit: Circuit, fields: dict[str, tuple[str, int]], lanes: bool) -> None:
        self._circuit = circuit
        self._fields = fields
        self._lanes = lanes
        self._word, self._signed = ("word", "sword") if lanes else ("uint32_t", "int32_t")
        self._done: dict[int, list[str]] = {}
        self._names: dict[str, str] = {}  # by expression
        self._joins: list[tuple[list[Piece], Node]] = []  # joined words so far, bit by bit
        self._uncut: dict[int, str] = {}  # sums by node, with bits above their width
        self._allowed: Collection[str] | None = None
        self._asker = ""
        self.lines: list[str] = []

    def allow(self, inputs: Collection[str] | None, asker: str) -> None:
        """Set the inputs that may be read from now on, and the name of who asks, for messages; ``None``: all."""
        self._allowed = inputs
        self._asker = asker

    @staticmethod
    def constant(value: int, lanes: bool) -> str:
        """Return the C expression of a constant."""
        return f"everywhere(0x{value:x}u)" if lanes else f"0x{value:x}u"

    def _constant(self, value: int) -> str:
        return self.constant(value, self._lanes)

    def _truth(self, condition: str) -> str:
        """Return all ones where a C condition holds."""
        return f"({self._word})({condition})" if self._lanes else f"-(uint32_t)({condition})"

    def _name(self, expression: str) -> str:
        if expression not in self._names:
            name = self._names[expression] = f"n{len(self.lines)}_@"
            self.lines.append(f"const {self._word} {name} = {expression};")
        return self._names[expression]

    def limb(self, node: Node) -> str:
        """Return the only limb of a word."""
        [limb] = self.limbs(node)
        return limb

    def number(self, node: Node) -> str:
        """Return the only limb of a word, as a number also where the word is a bit."""
        limb = self.limb(node)
        return self._name(f"{limb} & {self._constant(1)}") if node.width == 1 else limb

    def limbs(self, node: Node) -> list[str]:
        """Return the names of a word's limbs, computed where they were not yet."""
        stack = [node]
        while stack:
            node_ = stack[-1]
            if id(node_) in self._done:
                stack.pop()
                continue
            row = self._find_row(node_)
            needs = list(node_.operands) if row is None else [row.node]
            if node_.op == "join":
                needs += [piece.node for piece in node_.pieces if piece.node is not None]
            missing = [need for need in needs if id(need) not in self._done]
            if missing:
                stack += missing
                continue
            self._done[id(node_)] = self._compute(node_)
            if node_.op == "join" and len(node_.pieces) > 1 and node_.width <= LIMB:
                self._joins.append((_bits(node_), node_))
            stack.pop()
        return self._done[id(node)]

    def _compute(self, node: Node) -> list[str]:
        if node.op == "input":
            if self._allowed is not None and node.name not in self._allowed:
                raise NetlistError(f"{self._asker} must not depend on the input {node.name}")
            return [self._name(f"i@->{node.name}[{limb}]") for limb in range(limbs(node.width))]
        if node.op in ("register", "read"):
            field, width = self._fields[node.name]
            return [self._name(f"s@->{field}[{limb}]") for limb in range(limbs(width))]
        if node.op == "join":
            return self._join(node)
        row = self._find_row(node)
        if row is not None:
            return [self._name(self._decide_row(node.op, row))]
        operands = [self._done[id(operand)] for operand in node.operands]
        if node.op == "and":
            for one, other in (node.operands, node.operands[::-1]):
                whole = self._whole(one, other)
                if whole:
                    return [self._name(f"{limb} & {whole}") for limb in self._done[id(other)]]
        if node.op in ("and", "or", "xor"):
            sign = {"and": "&", "or": "|", "xor": "^"}[node.op]
            return [self._name(f"{a} {sign} {b}") for a, b in zip(*operands, strict=True)]
        if node.op == "not":
            return [
                self._name(f"~{a}" if node.width == 1 else f"{a} ^ {self._constant(_mask(node.width, limb))}")
                for limb, a in enumerate(operands[0])
            ]
        if node.op == "choose":
            [condition] = operands[0]
            asked, index = (node.operands[0].operands[0], 1) if node.operands[0].op == "not" else (node.operands[0], 2)
            shifted = self._shifted_up(asked, node.operands[index])
            if shifted:
                operands[index] = [shifted]
            return [
                self._name(f"({condition} & {a}) | (~{condition} & {b})") for a, b in zip(*operands[1:], strict=True)
            ]
        if node.op in ("add", "sub"):
            return self._add(node, *operands)
        if node.op == "mul":
            return self._multiply(node, *operands)
        return [self._name(self._decide(node, operands))]

    def _whole(self, one: Node, other: Node) -> str:
        """Return all ones where a bit is high, if a word repeats that bit as far as another word reaches."""
        if one.op != "join" or one.width == 1 or one.width > LIMB:
            return ""
        piece = one.pieces[0]
        if piece.node is None or not piece.repeated or piece.width < other.bound:
            return ""
        return self._mask_of(piece)

    def _shifted_up(self, asked: Node, chosen: Node) -> str:
        """Return a word shifted up, without cutting off its upper bits: it is chosen only where ``asked`` is low, and
        ``asked`` tells whether any of the bits to be cut off is high.
        """
        if chosen.op != "join" or chosen.width > LIMB or len(chosen.pieces) != 2:
            return ""
        above, (fill, kept) = _upper_bits(asked), chosen.pieces
        if above is None or kept.node is not above.node or (kept.start, kept.width) != (0, above.start):
            return ""
        [limb] = self._done[id(above.node)]
        return self._name(" | ".join([*self._place(fill, 0), f"({limb} << {fill.width})"]))

    def _find_row(self, node: Node) -> "_Row | None":
        """Return the bits of an any or all, if they are adjacent in a word that is computed already."""
        if node.op == "any" or (node.op == "all" and node.operands[0].bound == node.operands[0].width):
            return _row(node) or self._inside(node.operands[0])
        return _row(node)

    def _inside(self, node: Node) -> "_Row | None":
        """Find this word as a slice of an earlier one, ignoring leading zeros."""
        if node.op != "join" or len(node.pieces) < 2 or node.width > LIMB:
            return None
        bits = _bits(node)[: node.bound]
        for known, word in self._joins:
            for start in range(len(known) - len(bits) + 1):
                if known[start : start + len(bits)] == bits:
                    return _Row(word, start, len(bits))
        return None

    def _decide_row(self, op: str, row: "_Row") -> str:
        """Return whether any or all adjacent bits of a word are high, without moving them to the word's begin."""
        [limb] = self._done[id(row.node)]
        bits = ((1 << row.width) - 1) << row.start
        mask = self._constant(bits)
        if op == "all" and row.start + row.width < LIMB:
            return self._negative(f"{self._constant(bits - 1)} - ({limb} & {mask})")
        if op == "all":
            return self._truth(f"({limb} & {mask}) == {mask}")
        if row.start + row.width < row.node.bound:
            if row.start + row.width < LIMB:
                return self._negative(f"{self._constant(0)} - ({limb} & {mask})")
            return self._truth(f"({limb} & {mask}) != 0")
        if row.node.bound < LIMB:
            return self._negative(f"{self._constant((1 << row.start) - 1)} - {limb}")
        return self._truth(f"({limb} >> {row.start}) != 0")

    def _decide(self, node: Node, operands: list[list[str]]) -> str:
        """Return the result of an operation that gives a bit."""
        a = operands[0]
        width = node.operands[0].width
        if node.op == "any" and len(a) == 1 and node.operands[0].bound < LIMB:
            return self._negative(f"{self._constant(0)} - {a[0]}")
        if node.op == "any":
            return self._truth(f"({' | '.join(a)}) != 0")
        if node.op == "all":
            missing = [f"({limb} ^ {self._constant(_mask(width, index))})" for index, limb in enumerate(a)]
            return self._truth(f"({' | '.join(missing)}) == 0")
        if node.op == "parity":
            folded = self._name(" ^ ".join(a))
            for distance in (16, 8, 4, 2, 1):
                folded = self._name(f"{folded} ^ ({folded} >> {distance})")
            return self._bit(folded, 0)
        b = operands[1]
        if node.op == "equal":
            if width == 1:
                return f"~({a[0]} ^ {b[0]})"
            return self._truth("(" + " | ".join(f"({x} ^ {y})" for x, y in zip(a, b, strict=True)) + ") == 0")
        assert node.op == "less", node.op
        if width == 1:
            return f"~{a[0]} & {b[0]}"
        # Signed comparisons are quicker, and the same where the top bit is low.
        small = max(operand.bound for operand in node.operands) < LIMB
        if small and len(a) == 1:
            return self._negative(f"{a[0]} - {b[0]}")
        result = ""
        for x, y in zip(a, b, strict=True):
            less = self._truth(f"({self._signed}){x} < ({self._signed}){y}" if small else f"{x} < {y}")
            result = self._name(f"{less} | ({self._truth(f'{x} == {y}')} & {result})" if result else less)
        return result

    def _negative(self, difference: str) -> str:
        """Return all ones where a difference is below zero: two steps of a cycle each, quicker than a comparison."""
        return f"({self._word})(({self._signed})({difference}) >> {LIMB - 1})"

    def _bit(self, limb: str, index: int) -> str:
        """Return all ones where a bit is high."""
        shifted = f"({limb} << {LIMB - 1 - index})" if index < LIMB - 1 else limb
        return f"({self._word})(({self._signed}){shifted} >> {LIMB - 1})"

    def _add(self, node: Node, a: list[str], b: list[str]) -> list[str]:
        sign = "+" if node.op == "add" else "-"
        if len(a) == 1:
            # Operands of sums need not be cut to their width first: higher bits do not come down.
            operands = [
                self._uncut.get(id(operand), limb) for operand, limb in zip(node.operands, (a[0], b[0]), strict=True)
            ]
            carry = self._carry(node.operands[1])
            if carry:  # all ones are minus one
                total = self._name(f"{operands[0]} {'-' if node.op == 'add' else '+'} {carry}")
            else:
                total = self._name(f"{operands[0]} {sign} {operands[1]}")
            if operands == [a[0], b[0]] and (node.width == LIMB or (node.op == "add" and not _overflows(node))):
                return [total]
            self._uncut[id(node)] = total
            return [self._name(f"{total} & {self._constant(_mask(node.width, 0))}")]
        limbs: list[str] = []
        carry = ""  # all ones, minus one, where there is one
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            total = self._name(f"{x} {sign} {y}")
            if index + 1 < len(a) or carry:
                beyond = self._truth(f"{total} < {x}" if node.op == "add" else f"{x} < {y}")
                if carry:
                    further = self._name(f"{total} {'-' if node.op == 'add' else '+'} {carry}")
                    wraps = f"{further} < {total}" if node.op == "add" else f"{total} < {further}"
                    beyond += " | " + self._truth(wraps)
                    total = further
                carry = self._name(beyond)
            if index + 1 == len(a) and node.width % LIMB and (node.op == "sub" or _overflows(node)):
                total = self._name(f"{total} & {self._constant(_mask(node.width, index))}")
            limbs.append(total)
        return limbs

    def _carry(self, summand: Node) -> str:
        """Return all ones where a summand is one, if it is a bit."""
        if summand.op != "join" or summand.bound != 1 or summand.pieces[0].node is None:
            return ""
        return self._mask_of(summand.pieces[0])

    def _multiply(self, node: Node, a: list[str], b: list[str]) -> list[str]:
        if len(a) == 1:
            cut = f" & {self._constant(_mask(node.width, 0))}" if _overflows(node) else ""
            return [self._name(f"({a[0]} * {b[0]}){cut}")]
        # Digits of 16 bits: their products fit, and so do sums of the halves of all products.
        digits = [
            [
                self._name(f"({limbs[digit // 2]} >> {16 * (digit % 2)}) & {self._constant(0xFFFF)}")
                for digit in range(-(-operand.bound // 16))
            ]
            for limbs, operand in zip((a, b), node.operands, strict=True)
        ]
        columns: list[list[str]] = [[] for _ in range(2 * len(a) + 2)]
        for low, x in enumerate(digits[0]):
            for high, y in enumerate(digits[1]):
                if low + high < 2 * len(a):
                    product = self._name(f"{x} * {y}")
                    columns[low + high].append(f"({product} & {self._constant(0xFFFF)})")
                    columns[low + high + 1].append(f"({product} >> 16)")
        sums = []
        carry = self._constant(0)
        for digit in range(2 * len(a)):
            total = self._name(" + ".join([carry, *columns[digit]]))
            sums.append(self._name(f"{total} & {self._constant(0xFFFF)}"))
            carry = self._name(f"{total} >> 16")
        limbs = [self._name(f"{low} | ({high} << 16)") for low, high in zip(sums[::2], sums[1::2], strict=True)]
        limbs[-1] = self._name(f"{limbs[-1]} & {self._constant(_mask(node.width, len(limbs) - 1))}")
        return limbs

    # Joined words

    def _join(self, node: Node) -> list[str]:
        if node.width == 1:
            [piece] = node.pieces
            if piece.node is None:
                return [self._constant(0xFFFFFFFF * piece.start)]
            return [self._mask_of(piece)]
        row = self._inside(node)
        if row is not None:
            return [self._name(" | ".join(self._place(Piece(*row), 0)))]
        terms: list[list[str]] = [[] for _ in range(limbs(node.width))]
        position = 0
        for piece in node.pieces:
            for limb in range(position // LIMB, (position + piece.width - 1) // LIMB + 1):
                low, high = max(position, limb * LIMB), min(position + piece.width, (limb + 1) * LIMB)
                part = Piece(
                    piece.node,
                    piece.start if piece.repeated else piece.start + low - position,
                    high - low,
                    piece.repeated,
                )
                if piece.node is None:
                    part = Piece(None, piece.start >> (low - position) & ((1 << (high - low)) - 1), high - low)
                terms[limb] += self._place(part, low - limb * LIMB)
            position += piece.width
        return [self._name(" | ".join(parts) or self._constant(0)) for parts in terms]

    def _mask_of(self, piece: Piece) -> str:
        """Return the name of all ones where a bit of a word is high."""
        assert piece.node is not None
        limb = self._done[id(piece.node)][piece.start // LIMB]
        if piece.node.width == 1:
            return limb
        return self._name(self._bit(self._uncut.get(id(piece.node), limb), piece.start % LIMB))

    def _place(self, piece: Piece, position: int) -> list[str]:
        """Return the terms of a piece at its place in a limb, which it fits into."""
        mask = ((1 << piece.width) - 1) << position
        if piece.node is None:
            return [self._constant(piece.start << position)] if piece.start else []
        if piece.repeated or piece.node.width == 1:
            whole = self._mask_of(Piece(piece.node, piece.start, 1))
            return [whole if mask == 0xFFFFFFFF else f"({whole} & {self._constant(mask)})"]
        terms = []
        limbs = self._done[id(piece.node)]
        for index in range(piece.start // LIMB, (piece.start + piece.width - 1) // LIMB + 1):
            low = max(piece.start, index * LIMB)
            high = min(piece.start + piece.width, (index + 1) * LIMB)
            source, target = low - index * LIMB, position + low - piece.start
            part = ((1 << (high - low)) - 1) << target
            shift = target - source
            top = min(LIMB, max(0, piece.node.bound - index * LIMB))  # bits above are low
            reached = ((1 << top) - 1) << shift if shift >= 0 else ((1 << top) - 1) >> -shift
            cut = reached & 0xFFFFFFFF & ~part
            limb = self._uncut.get(id(piece.node), limbs[index]) if cut else limbs[index]
            moved = limb if not shift else f"({limb} {'<<' if shift > 0 else '>>'} {abs(shift)})"
            terms.append(f"({moved} & {self._constant(part)})" if cut else moved)
        return terms


class _Row(NamedTuple):
    """Adjacent bits of a word of one limb."""

    node: Node
    start: int
    width: int


def _row(node: Node) -> _Row | None:
    """Return the bits of an any or all, if they are adjacent."""
    if node.op not in ("any", "all"):
        return None
    [word] = node.operands
    if len(word.pieces) != 1:
        return None
    [piece] = word.pieces
    if piece.node is None or piece.repeated or not 1 < piece.node.width <= LIMB:
        return None
    return _Row(piece.node, piece.start, piece.width)


def _bits(node: Node) -> list[Piece]:
    return [find_bit(node, index) for index in range(node.width)]


def _upper_bits(asked: Node) -> _Row | None:
    """Return the bits of a condition, if it is whether any bit of a word is high from some place on."""
    row = _row(asked) if asked.op == "any" else None
    if asked.op == "join" and asked.pieces[0].node is not None:  # of one bit
        row = _Row(asked.pieces[0].node, asked.pieces[0].start, 1)
    return row if row and row.node.width <= LIMB and row.start + row.width >= row.node.bound else None


def limbs(width: int) -> int:
    return max(1, -(-width // LIMB))


def _mask(width: int, limb: int) -> int:
    """Return a mask of the bits of a limb that a word of ``width`` bits has."""
    return (1 << min(LIMB, width - LIMB * limb)) - 1


def _overflows(node: Node) -> bool:
    """Whether a sum or product can be wider than its word, if the word does not fill its last limb."""
    bounds = [operand.bound for operand in node.operands]
    most = max(bounds) + 1 if node.op == "add" else sum(bounds)
    return node.width % LIMB != 0 and most > node.width
