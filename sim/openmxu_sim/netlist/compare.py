"""Comparison of two circuits: they do the same as far as their netlists are the same.

No solver: gates are compared one by one. Registers and memories are paired as they are met on the way back from
outputs, whatever they are called; if pairs have the same initial values, and their next values are computed alike,
they always hold the same.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from openmxu_sim.netlist.circuit import Circuit, Node, Piece, find_bit
from openmxu_sim.netlist.rtlil import Bit

_BITWISE = ("not", "and", "or", "xor")


class _Pair(NamedTuple):
    """A bit of each circuit; the two should be computed alike."""

    a: Piece
    b: Piece


def find_difference(
    a: Circuit,
    b: Circuit,
    pairs: Iterable[tuple[Bit, Bit]],
    same_input: Callable[[tuple[str, int], tuple[str, int]], bool],
) -> str:
    """Describe the first difference between bits of two circuits; empty, if there is none."""
    search = _Search(a, b, same_input)
    for one, other in pairs:
        search.expect(one, other)
    return search.run()


class _Search:
    """Pairs that were seen, and those that are still to be compared."""

    def __init__(self, a: Circuit, b: Circuit, same_input: Callable[[tuple[str, int], tuple[str, int]], bool]) -> None:
        self._a, self._b = a, b
        self._same_input = same_input
        self._seen: set[tuple[int, int, int, int]] = set()
        self._memories: set[tuple[str, str]] = set()
        self._words: dict[tuple[int, tuple[Bit, ...]], Node] = {}
        self._waiting: list[_Pair] = []

    def expect(self, a: Bit, b: Bit) -> None:
        """Expect two nets to be alike."""
        self._push_words((a,), (b,))

    def _push(self, a: Node, b: Node, at_a: int, at_b: int) -> None:
        one, other = find_bit(a, at_a), find_bit(b, at_b)
        known = id(one.node), one.start, id(other.node), other.start
        if known not in self._seen:
            self._seen.add(known)
            self._waiting.append(_Pair(one, other))

    def _push_words(self, a: tuple[Bit, ...], b: tuple[Bit, ...]) -> None:
        for index in range(len(a)):
            self._push(self._word(self._a, a), self._word(self._b, b), index, index)

    def _word(self, circuit: Circuit, bits: tuple[Bit, ...]) -> Node:
        """Return the word that bits make; it is kept, as wide words take a while, and are asked for bit by bit."""
        known = id(circuit), bits
        if known not in self._words:
            self._words[known] = circuit.word(bits)
        return self._words[known]

    def run(self) -> str:
        """Describe the first difference; empty, if there is none."""
        while self._waiting:
            pair = self._waiting.pop()
            if not self._look(pair):
                return f"{_describe(pair.a)} is not like {_describe(pair.b)}"
        return ""

    def _look(self, pair: _Pair) -> bool:
        """Whether the bits of a pair are alike, if the bits that they are computed from are."""
        (a, at_a), (b, at_b) = ((piece.node, piece.start) for piece in pair)
        if a is None or b is None:
            return a is b and at_a == at_b
        if a.op != b.op:
            return False
        if a.op == "input":
            return self._same_input((a.name, at_a), (b.name, at_b))
        if a.op == "register":
            return self._look_at_registers(a, b, at_a, at_b)
        if at_a != at_b and a.op not in (*_BITWISE, "choose"):
            return False
        if a.op == "read":
            return self._look_at_memories(a, b)
        if a.op in _BITWISE:
            for one, other in zip(a.operands, b.operands, strict=True):
                self._push(one, other, at_a, at_b)
            return True
        if a.op == "choose":
            self._push(a.operands[0], b.operands[0], 0, 0)
            for one, other in zip(a.operands[1:], b.operands[1:], strict=True):
                self._push(one, other, at_a, at_b)
            return True
        for one, other in zip(a.operands, b.operands, strict=True):
            if one.width != other.width:
                return False
            for index in range(one.width):
                self._push(one, other, index, index)
        return True

    def _look_at_registers(self, a: Node, b: Node, at_a: int, at_b: int) -> bool:
        one, other = self._a.registers[a.name], self._b.registers[b.name]
        self._push(self._word(self._a, one.bits), self._word(self._b, other.bits), at_a, at_b)
        return one.cycles == other.cycles and one.initial >> at_a & 1 == other.initial >> at_b & 1

    def _look_at_memories(self, a: Node, b: Node) -> bool:
        one, other = self._a.reads[a.name], self._b.reads[b.name]
        self.expect(one.enable, other.enable)
        if len(one.address) != len(other.address):
            return False
        self._push_words(one.address, other.address)
        pair = one.memory, other.memory
        if (pair[0].name, pair[1].name) in self._memories:
            return True
        self._memories.add((pair[0].name, pair[1].name))
        writes = [
            [write for write in circuit.writes if write.memory is memory]
            for circuit, memory in zip((self._a, self._b), pair, strict=True)
        ]
        sizes = [
            (memory.width, memory.depth, [len(write.address) for write in ports])
            for memory, ports in zip(pair, writes, strict=True)
        ]
        if sizes[0] != sizes[1]:
            return False
        for x, y in zip(*writes, strict=True):
            self.expect(x.enable, y.enable)
            self._push_words(x.address, y.address)
            self._push_words(x.data, y.data)
        return True


def _describe(piece: Piece) -> str:
    if piece.node is None:
        return f"constant {piece.start}"
    return f"bit {piece.start} of {f'{piece.node.op} {piece.node.name}'.strip()}"
