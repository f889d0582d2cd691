"""A unit's netlist seen as control, bit by bit, and data, word by word.

The exploration's assumptions about data are enforced here: a word of data is moved, chosen by control, kept
in registers and memories and handed to arithmetic as a whole, bits in order; and no bit of control is
computed from data. A netlist that does anything else is refused.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from openmxu import yosys
from openmxu.export.verilog import to_rtlil
from openmxu.spec.config import MxuConfig
from openmxu.spec.marks import MARKS
from openmxu.spec.stages import split_stages
from openmxu.yosys.netlist import Bit, Cell, Netlist, read_netlist

_GATES = {
    "$_NOT_": "not({A})",
    "$_AND_": "and({A}, {B})",
    "$_OR_": "or({A}, {B})",
    "$_XOR_": "xor({A}, {B})",
    "$_MUX_": "choose({S}, {B}, {A})",
}
_ARITHMETIC = {"multiply_add": "multiply and add", "adder": "add", "converter": "convert"}
# Where a register's valid bit is low, its other bits mean nothing. They are taken as undefined, which leaves fewer
# states. If this were wrong, the exploration would fail: what is undefined proves nothing.
_VALID_BITS = {r"control_\d+|bank\.column_\d+\.o_control": 0, r".*\.(write|leaving|given)_\d+": -1}


@dataclass(frozen=True)
class Word:
    """A word of data, and its source."""

    kind: str
    """``"input"`` (lane or mark of a stream), ``"constant"``, ``"choose"`` (the first of two words where a bit
    is high, else the second), ``"clear"`` (a word whose NaN is replaced where a mark says so),
    ``"register"``, ``"read"`` (output register of a memory's port), ``"multiply"``, ``"join"`` (products, those before
    first, that are added at once), ``"add"``, ``"convert"``."""
    operands: tuple[int, ...] = ()
    """Words that this word is computed from, by index."""
    control: tuple[str, ...] = ()
    """C expressions of control: of ``"choose"`` the bit, of ``"read"`` enable and address, lowest bit first."""
    detail: str | int = 0
    """Stream and lane, value, memory's name, or cycles of latency."""


@dataclass(frozen=True)
class Memory:
    """A memory of words: places, and per write port enable, address bits and the index of the word written."""

    depth: int
    writes: tuple[tuple[str, tuple[str, ...], int], ...]


def read_unit(unit: Callable[[MxuConfig], object], config: MxuConfig) -> Netlist:
    """Synthesise a unit down to gates, memory ports, and its arithmetic as black boxes."""
    rtlil = to_rtlil(unit(config))
    modules = re.findall(r"^module \\(\S+)$", rtlil, re.MULTILINE)
    boxes = [name for name in modules if _box_kind(name)]
    script = f"""read_rtlil /job/design.il
blackbox {" ".join(boxes)}
hierarchy -check -top mxu
proc
flatten
opt_clean
techmap
opt_merge
opt_clean
write_json /job/result
"""
    return read_netlist(yosys.produce(script, rtlil), "mxu")


def _box_kind(module: str) -> str | None:
    """Return the arithmetic of a module, by its name."""
    match = re.fullmatch(r".*\.(multiply_add|adder)|(converter)_.*", module)
    return match and _ARITHMETIC[match[1] or match[2]]


class WordNetlist:
    """A unit's netlist as control and words."""

    def __init__(self, netlist: Netlist, config: MxuConfig) -> None:
        self._netlist = netlist
        self._config = config
        self._drivers: dict[Bit, tuple[Cell, str]] = {}
        for cell in netlist.cells:
            for port, bits in cell.connections.items():
                if port not in cell.inputs:
                    self._drivers |= dict.fromkeys(bits, (cell, port))
        self._check_clocks()
        self._lanes: dict[tuple[Bit, ...], str] = {}
        self._names: dict[Bit, str] = {"0": "LOW", "1": "HIGH"}
        self._name_inputs()
        self._indices: dict[tuple[Bit, ...], int] = {}
        self.words: list[Word] = []
        self.memories: dict[str, Memory] = {}
        self.logic: list[str] = []  # lines of C
        self.registers: list[str] = []  # of control: what they hold next
        self._waiting: list[tuple[int, Bit]] = []
        shown = {name: netlist.outputs[name][0] for name in ("weights__ready", "activations__ready", "results__valid")}
        shown |= {f"mistake[{index}]": bit for index, bit in enumerate(netlist.outputs.get("status__error", ()))}
        self.outputs = {name: self._bit(bit) for name, bit in shown.items()}
        result = netlist.outputs["results__payload"]
        self.results = [self._word(result[32 * lane : 32 * lane + 32]) for lane in range(config.columns)]
        self.results.append(self._word(result[32 * config.columns :]))
        while self._waiting:  # for the next contents of registers, which may need more of them
            index, bit = self._waiting.pop()
            self.registers[index] = self._bit(bit)
        self.meaningless = self._find_meaningless()
        self._check_handshakes(shown)

    def _check_clocks(self) -> None:
        """Check that everything runs on the one clock; else registers might never change, and nothing be proven."""
        clock = self._netlist.inputs["clk"]
        for cell in self._netlist.cells:
            for port in ("C", "CLK", "clk"):
                if cell.connections.get(port, clock) != clock:
                    raise ValueError(f"clock of {cell.name} must be the port clk")
            for name, value in (("CLK_ENABLE", 1), ("CLK_POLARITY", 1), ("TRANSPARENCY_MASK", 0)):
                if int(cell.parameters.get(name, str(value)), 2) != value:
                    raise ValueError(f"{name} of {cell.name} must be {value}")
            if any(cell.connections.get(port, ("0",)) != ("0",) for port in ("ARST", "SRST")):
                raise ValueError(f"read port {cell.name} must be without reset")

    def _name_inputs(self) -> None:
        """Name the inputs: lanes are data; marks, valid and ready are control.

        But ``clear_nan`` is only ever applied to data, so it is data; ``last`` is both: control where admission
        reads it, data on its way to the results. So is ``clear_nan`` where the status looks whether it changes.
        """
        ports, width = self._netlist.inputs, self._config.source.width
        for stream, lanes, marks in (
            ("weights", self._config.columns, ("last",)),
            ("activations", self._config.rows, MARKS),
        ):
            payload = ports[f"{stream}__payload"]
            for lane in range(lanes):
                self._lanes[payload[width * lane : width * (lane + 1)]] = f"{stream}[{lane}]"
            for mark, bit in zip(marks, payload[width * lanes :], strict=True):
                if mark != "clear_nan" or self._config.status:
                    self._names[bit] = f"i->{stream}_{mark}"
                if mark in ("clear_nan", "last"):
                    self._lanes[bit,] = f"{stream}_{mark}_word"
        for port in ("weights__valid", "activations__valid", "results__ready", "rst"):
            self._names[ports[port][0]] = f"i->{port}"
        if self._config.status:
            self._names[ports["status__clear"][0]] = "LOW"

    # Control

    def _bit(self, bit: Bit) -> str:
        """Return the C expression of a bit of control; its logic, and the logic before it, is added."""
        if bit in self._names:
            return self._names[bit]
        if bit not in self._drivers:
            raise ValueError(f"control must not read data or undefined bits, as it does bit {bit} of an input")
        cell, _ = self._drivers[bit]
        if cell.type == "$_DFF_P_":
            self._names[bit] = f"r{len(self.registers)}"
            self._waiting.append((len(self.registers), cell.connections["D"][0]))
            self.registers.append("")
        elif cell.type in _GATES:
            operands = {port: self._bit(bits[0]) for port, bits in cell.connections.items() if port != "Y"}
            self._names[bit] = f"n{bit}"
            self.logic.append(f"const bit n{bit} = {_GATES[cell.type].format(**operands)};")
        else:
            raise ValueError(f"control must not read data, as it does the output of {cell.name}")
        return self._names[bit]

    def _find_meaningless(self) -> dict[int, str]:
        """Return registers of control that may mean nothing, and the C expression that is high where they do."""
        guards: dict[int, str] = {}
        for name, bits in self._netlist.nets.items():
            for pattern, index in _VALID_BITS.items():
                if re.fullmatch(pattern, name):
                    for valid in self._registers([bits[index]]):
                        guards |= dict.fromkeys(set(self._registers(bits)) - {valid}, f"not({self.registers[valid]})")
        # What the status knows of tiles means nothing after the first mistake.
        if self._config.status:
            errors = (self.registers[register] for register in self._registers(self._netlist.outputs["status__error"]))
            mistaken = functools.reduce("or({}, {})".format, errors)
            for name in ("inside", "begun_with", "count", "missing"):
                guards |= dict.fromkeys(self._registers(self._netlist.nets.get(f"status.{name}", ())), mistaken)
        return guards

    def _registers(self, bits: Sequence[Bit]) -> list[int]:
        """Return the registers of control among the bits."""
        names = (self._names.get(bit, "") for bit in bits)
        return [int(name[1:]) for name in names if re.fullmatch(r"r\d+", name)]

    def _cone(self, bit: Bit) -> set[Bit]:
        """Return the outputs of registers and memories, and the inputs, that a bit depends on within the cycle."""
        seen: set[Bit] = set()
        leaves: set[Bit] = set()
        stack = [bit]
        while stack:
            bit = stack.pop()
            if bit in seen or bit in ("0", "1"):
                continue
            seen.add(bit)
            cell = self._drivers[bit][0] if bit in self._drivers else None
            if cell is None or cell.type not in _GATES:
                leaves.add(bit)
            else:
                stack += [bits[0] for port, bits in cell.connections.items() if port != "Y"]
        return leaves

    def _check_handshakes(self, shown: Mapping[str, Bit]) -> None:
        """Check that ready, valid and mistakes follow no input within the cycle, and results come from registers."""
        owners = {bit: port for port, bits in self._netlist.inputs.items() for bit in bits}
        for output, bit in shown.items():
            seen = {owners[leaf] for leaf in self._cone(bit) if leaf in owners}
            if seen:
                raise ValueError(f"{output} must not depend on {', '.join(sorted(seen))} within the cycle")
        if any(self.words[index].kind not in ("register", "read") for index in self.results):
            raise ValueError("results must come from registers")

    # Data

    def _word(self, bits: Sequence[Bit]) -> int:
        """Return the index of a word, which is added with all words that it is computed from."""
        key = tuple(bits)
        if key not in self._indices:
            self._indices[key] = len(self.words)
            self.words.append(Word("unknown"))  # registers feed back
            self.words[self._indices[key]] = self._trace(key)
        return self._indices[key]

    def _trace(self, bits: tuple[Bit, ...]) -> Word:
        """Return a word, traced to its source."""
        if bits in self._lanes:
            return Word("input", detail=self._lanes[bits])
        if all(bit in ("0", "1") for bit in bits):
            return Word("constant", detail=int("".join(map(str, reversed(bits))), 2))
        drivers = [self._drivers.get(bit) for bit in bits]
        cells = [driver[0] for driver in drivers if driver is not None]
        types = {cell.type for cell in cells}
        if len(cells) == len(bits) and len(types) == 1:
            [kind], cell = types, cells[0]
            names = {gate.name for gate in cells}
            if len(names) == 1 and kind not in _GATES and kind != "$_DFF_P_":
                return self._whole(cell, bits)
            if kind == "$_DFF_P_":
                return Word("register", (self._word(_port(cells, "D")),))
            if kind == "$_MUX_" and len(set(_port(cells, "S"))) == 1:
                return Word(
                    "choose",
                    (self._word(_port(cells, "B")), self._word(_port(cells, "A"))),
                    (self._bit(cell.connections["S"][0]),),
                )
            if kind == "$_AND_" and len(bits) > 1:
                return self._masked(_port(cells, "A"), _port(cells, "B"))
        raise ValueError(f"data must be moved as whole words, not as {sorted(types)} at {self._net(bits[0])}")

    def _whole(self, cell: Cell, bits: tuple[Bit, ...]) -> Word:
        """Return a word that a memory or arithmetic puts out."""
        outputs = [port for port in cell.connections if port not in cell.inputs]
        if len(outputs) != 1 or cell.connections[outputs[0]] != bits:
            raise ValueError(f"data must be moved as whole words, not as a part of what {cell.name} puts out")
        if cell.type == "$memrd_v2":
            return self._read(cell)
        box = _box_kind(cell.type)
        if box is None:
            raise ValueError(f"data must be moved as whole words, not through {cell.type}")
        at_product, at_sum = split_stages(self._config.stages)
        if box == "convert":
            return Word(box, self._operands(cell, "i"), detail=0)
        if box == "add":
            return Word(box, self._operands(cell, "i_a", "i_b"), detail=at_sum)
        sides = [cell.connections[port] for port in ("i_a", "i_b")]
        width = len(sides[0]) // self._config.terms
        products = [
            self._new(Word("multiply", tuple(self._word(side[low : low + width]) for side in sides), detail=at_product))
            for low in range(0, len(sides[0]), width)
        ]
        block = functools.reduce(lambda left, right: self._new(Word("join", (left, right))), products)
        return Word("add", (*self._operands(cell, "i_c"), block), detail=at_sum)

    def _new(self, word: Word) -> int:
        self.words.append(word)
        return len(self.words) - 1

    def _operands(self, cell: Cell, *ports: str) -> tuple[int, ...]:
        return tuple(self._word(cell.connections[port]) for port in ports)

    def _read(self, cell: Cell) -> Word:
        """Return the word of a memory's read port."""
        name = cell.parameters["MEMID"]
        if name not in self.memories:
            ports = [
                part for part in self._netlist.cells if part.type == "$memwr_v2" and part.parameters["MEMID"] == name
            ]
            self.memories[name] = Memory(1 << len(cell.connections["ADDR"]), ())  # its words may come back to it
            self.memories[name] = Memory(1 << len(cell.connections["ADDR"]), tuple(self._write(port) for port in ports))
        return Word(
            "read", (), tuple(self._bit(bit) for bit in (cell.connections["EN"][0], *cell.connections["ADDR"])), name
        )

    def _write(self, cell: Cell) -> tuple[str, tuple[str, ...], int]:
        """Return enable, address and word of a memory's write port."""
        if len(set(cell.connections["EN"])) != 1:
            raise ValueError(f"data must be moved as whole words, not written in parts by {cell.name}")
        return (
            self._bit(cell.connections["EN"][0]),
            tuple(self._bit(bit) for bit in cell.connections["ADDR"]),
            self._word(cell.connections["DATA"]),
        )

    def _masked(self, left: tuple[Bit, ...], right: tuple[Bit, ...]) -> Word:
        """Return a word masked by one bit that depends on all bits of the word and on a mark."""
        word, mask = (left, right) if len(set(right)) == 1 else (right, left)
        marks = self._cone(mask[0]) - set(word)
        if len(set(mask)) != 1 or len(marks) != 1:
            raise ValueError(f"data must be moved as whole words, not masked bit by bit at {self._net(word[0])}")
        return Word("clear", (self._word(word), self._word(tuple(marks))))

    def _net(self, bit: Bit) -> str:
        """Return a name of a bit, for messages."""
        return next((name for name, bits in self._netlist.nets.items() if bit in bits), f"bit {bit}")


def _port(cells: Sequence[Cell], port: str) -> tuple[Bit, ...]:
    """Return the bits that one-bit cells are connected to at a port."""
    return tuple(cell.connections[port][0] for cell in cells)
