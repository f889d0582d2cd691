"""Assumptions of ``unit.c`` about a unit, compared with the netlist of the whole unit.

The machine code has the parts from their netlists, but their neighbours, skews and delays are written by hand. Two
checks close the gap: :func:`check_wiring` follows every input of every part of the elaborated unit back to its
source; :func:`check_parts` compares the parts inside the unit with those that are compiled.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from amaranth.hdl import Shape

from openmxu.export.verilog import to_rtlil
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32
from openmxu.spec.marks import MARKS
from openmxu.spec.passes import Part
from openmxu.unit.mxu import Mxu
from openmxu.unit.status import COUNTERS
from openmxu_sim.engines.compiled.source import constants, netlists, parts
from openmxu_sim.netlist.circuit import Circuit
from openmxu_sim.netlist.compare import find_difference
from openmxu_sim.netlist.rtlil import HIGH, LOW, Bit, Box, Flat, Place, flatten, read_interface

_UNIT = "unit"
"""Owner of the unit's own ports."""

_CONSTANT = "constant 0"
"""Owner of +0."""

_EDGES = {"weight_edge": lambda config: config.columns, "activation_edge": lambda config: config.rows}
"""Lanes of the edges in the unit, which are compiled as edges of one lane."""


class WiringError(RuntimeError):
    """A unit is not wired or made as the machine code assumes; the text names the difference and its place."""


@dataclass(frozen=True)
class Signal:
    """Adjacent bits of a signal of a part, or of the unit, some cycles later; all bits where ``width`` is ``None``."""

    part: str
    wire: str
    low: int = 0
    width: int | None = 1
    later: int = 0

    def bit(self, index: int) -> str:
        """Return the name of one of its bits."""
        if self.part == _CONSTANT:
            return self.part
        return f"{self.part}.{self.wire}[{self.low + index}]{_later(self.later)}"


def _rules(config: MxuConfig) -> dict[str, dict[str, Sequence[Signal]]]:
    """Return the sources of the inputs of each part, and of the unit's outputs, the lowest bits first."""
    number = constants(config)
    rows, columns, word, source = (number[name] for name in ("ROWS", "COLUMNS", "OPERAND_WIDTH", "SOURCE_WIDTH"))
    elements, words = rows // number["TERMS"], number["TERMS"] * word  # rows of them, and the bits that each takes
    rules: dict[str, dict[str, Sequence[Signal]]] = {}

    def all_of(part: str, wire: str, later: int = 0) -> Signal:
        return Signal(part, wire, width=None, later=later)

    def weight(column: int) -> Signal:
        return Signal("weight_edge", "o_words", column * config.weight_width, config.weight_width, later=column)

    def activation(row: int) -> Signal:
        return Signal(
            "activation_edge", "o_words", row * words, words, later=number["SKEW_BASE"] + row * number["ROW_STEP"]
        )

    # The array: signals of the left neighbour and of the one above.
    for r in range(elements):
        for c in range(columns):
            left, above = f"pe({r}, {c - 1})", f"pe({r - 1}, {c})"
            rules[f"pe({r}, {c})"] = {
                "i_activation": [all_of(left, "o_activation") if c else activation(r)],
                "i_swap": [Signal(left, "o_swap") if c else Signal("admission", "o_swaps", r)],
                "i_load": [Signal(left, "o_load") if c else Signal("admission", "o_loads", r)],
                "i_weight": [all_of(above, "o_weight") if r else weight(c)],
                "i_psum": [all_of(above, "o_psum") if r else Signal(_CONSTANT, "", width=FP32.width)],
            }
    # The accumulator bank.
    for c in range(columns):
        before, delay = f"column({c - 1})" if c else "admission", 0 if c else number["CONTROL_DELAY"]
        rules[f"column({c})"] = {
            "i_psum": [all_of(f"pe({elements - 1}, {c})", "o_psum")],
            "i_control": [all_of(before, "o_control", later=delay)],
            "i_fetch": [Signal("emission", "o_fetch")],
            "i_row": [all_of("emission", "o_row")],
        }
    # Control, and the marks that control and counters take.
    marks = {
        f"i_{mark}": [Signal(_UNIT, "activations__payload", rows * source + bit)] for bit, mark in enumerate(MARKS)
    }
    rules["emission"] = {
        "i_control": [all_of(f"column({columns - 1})", "o_control")],
        "i_ready": [Signal(_UNIT, "results__ready")],
    }
    rules["admission"] = {
        "i_weights": [Signal(_UNIT, "weights__valid")],
        "i_activations": [Signal(_UNIT, "activations__valid")],
        **marks,
        "i_freed": [Signal("emission", "o_fetch")],
    }
    # The streams. The part of a beat is above its data and all other marks.
    for stream, lanes, others in (("weights", columns, 1), ("activations", rows, len(MARKS))):
        part = Signal(_UNIT, f"{stream}__payload", lanes * source + others, Shape.cast(Part).width)
        rules[f"{stream.removesuffix('s')}_edge"] = {
            "i_words": [Signal(_UNIT, f"{stream}__payload", 0, lanes * source)],
            "i_take": [Signal("admission", f"o_{stream}_taken")],
            **({"i_part": [part]} if config.splitter else {}),
        }
    counters = (*COUNTERS, "error") if config.status else ()
    results = [*(all_of(f"column({c})", "o_data") for c in range(columns)), Signal("emission", "o_last")]
    rules[_UNIT] = {
        "weights__ready": [Signal("admission", "o_weights_ready")],
        "activations__ready": [Signal("admission", "o_activations_ready")],
        "results__valid": [Signal("emission", "o_valid")],
        "results__payload": results,
        **{f"status__{name}": [all_of("status", f"o_{name}")] for name in counters},
    }
    if config.status:
        rules["status"] = {
            "i_weights_valid": [Signal(_UNIT, "weights__valid")],
            "i_weights_ready": [Signal("admission", "o_weights_ready")],
            "i_activations_valid": [Signal(_UNIT, "activations__valid")],
            "i_activations_ready": [Signal("admission", "o_activations_ready")],
            "i_results_valid": [Signal("emission", "o_valid")],
            "i_results_ready": [Signal(_UNIT, "results__ready")],
            "i_weights_last": [Signal(_UNIT, "weights__payload", columns * source)],
            **marks,
            "i_go": [Signal("admission", "o_go")],
            "i_waits_input": [Signal("admission", "o_waits_input")],
            "i_waits_output": [Signal("admission", "o_waits_output")],
            "i_clear": [Signal(_UNIT, "status__clear")],
        }
    clock = {"clk": [Signal(_UNIT, "clk")], "rst": [Signal(_UNIT, "rst")]}
    return {part: wires if part == _UNIT else {**wires, **clock} for part, wires in rules.items()}


def check_wiring(config: MxuConfig, unit: Callable[[MxuConfig], Any] = Mxu) -> int:
    """Compare the sources of the inputs of a unit's parts with those that the machine code assumes; counts them."""
    elaborated = _elaborate(config, unit)
    modules = elaborated.modules
    design = _Design(flatten(elaborated.text, "mxu", boxes=modules.values()), modules)
    looked_at = 0
    left = set(design.boxes)
    for part, inputs in _rules(config).items():
        if part != _UNIT and part not in left:
            raise WiringError(f"{part} must be in the unit, once")
        left.discard(part)
        for wire, sources in inputs.items():
            design.compare(part, wire, sources)
            looked_at += len(sources)
        design.check_covered(part, inputs)
    if left:
        raise WiringError(f"{min(left)} must not be in the unit")
    for part, lanes in _EDGES.items():
        _check_lanes(config, elaborated, part, lanes(config))
    return looked_at


def check_parts(config: MxuConfig, unit: Callable[[MxuConfig], Any] = Mxu) -> int:
    """Compare the inside of a unit's parts with the parts that are compiled; :func:`check_wiring` compares edges."""
    elaborated = _elaborate(config, unit)
    compared = [part for part in parts(config) if not part.endswith("edge")]
    for part in compared:
        _Comparison(elaborated, part)(part, lambda wire, index: (wire, index))
    return len(compared)


@dataclass(frozen=True)
class _Unit:
    """A unit's RTLIL."""

    text: str
    """RTLIL text of the whole unit."""
    modules: Mapping[str, str]
    """Names of its parts' modules there, by part."""
    alone: Mapping[str, str]
    """RTLIL of each part alone, as it is compiled."""


@lru_cache(maxsize=1)
def _elaborate(config: MxuConfig, unit: Callable[[MxuConfig], Any]) -> _Unit:
    text = to_rtlil(unit(config))
    modules = {
        "weight_edge": "mxu.weight_edge",
        "activation_edge": "mxu.activation_edge",
        "admission": "mxu.admission",
        "emission": "mxu.bank.emission",
    }
    if config.status:
        modules["status"] = "mxu.status"
    for part in ("pe", "column"):
        # Any instance will do: one of another module than the others would not be found at its place.
        match = re.search(rf"^\s*cell \\(\S+) \\{part}_0$", text, re.MULTILINE)
        if match is None:
            raise WiringError(f"{part}_0 must be in the unit")
        modules[part] = match[1]
    return _Unit(text, modules, _compiled(config))


_compiled = lru_cache(maxsize=1)(netlists)


class _Design:
    """A flat unit whose parts are boxes, with the names that the rules have for them."""

    def __init__(self, flat: Flat, modules: Mapping[str, str]) -> None:
        self._flat = flat
        self.boxes: dict[str, Box] = {}
        parts = {module: part for part, module in modules.items()}
        paths = {_row(box.name) for box in flat.boxes if parts[box.type] == "pe"}
        rows = {path: row for row, path in enumerate(sorted(paths))}  # bands count their rows from 0
        for box in flat.boxes:
            name = _name(parts[box.type], box.name, rows)
            if name in self.boxes:
                raise WiringError(f"{name} must be in the unit once, not as {box.name} and {self.boxes[name].name}")
            self.boxes[name] = box
        self._delayed = self._find_registers()
        self._missing: dict[tuple[int, tuple[str, ...]], list[str]] = {}

    def _find_registers(self) -> dict[Bit, Bit]:
        """Map each bit of a plain register to the bit that it shows a cycle later.

        A plain register is low at first, as delays in the machine code are, and takes its input at every clock edge
        without reset.
        """
        flat = self._flat
        clock, reset = ([flat.root(bit) for bit in flat.inputs[name]] for name in ("clk", "rst"))
        unless_reset: dict[Bit, tuple[Bit, Bit]] = {}
        for cell in flat.cells:
            if cell.type == "$mux" and [flat.root(bit) for bit in cell.connections["S"]] == reset:
                ports = cell.connections
                unless_reset |= dict(zip(ports["Y"], zip(ports["A"], ports["B"], strict=True), strict=True))
        delayed = {}
        for cell in flat.cells:
            ports = cell.connections
            if cell.type != "$dff" or [flat.root(bit) for bit in ports["CLK"]] != clock:
                continue
            if cell.parameters["CLK_POLARITY"] == 1:
                for shown, data in zip(ports["Q"], ports["D"], strict=True):
                    source, after_reset = unless_reset.get(flat.root(data), (data, LOW))
                    if not flat.initial.get(shown, 0) and flat.root(after_reset) == LOW:
                        delayed[flat.root(shown)] = source
        return delayed

    def _wire(self, part: str, wire: str) -> tuple[Bit | None, ...]:
        """Return the bits of a part's signal, or of the unit's port."""
        if part == _UNIT:
            return (self._flat.inputs | self._flat.outputs)[wire]
        if part not in self.boxes or wire not in self.boxes[part].interface.wires:
            raise WiringError(f"{part}.{wire} must be in the unit")
        return self.boxes[part].wire(wire)

    def _bits(self, signal: Signal) -> tuple[Bit | None, ...]:
        """Return the bits of a signal, without its delay."""
        if signal.part == _CONSTANT:
            return (LOW,) * (signal.width or 0)
        bits = self._wire(signal.part, signal.wire)
        return bits if signal.width is None else bits[signal.low : signal.low + signal.width]

    def _trace(self, bit: Bit | None) -> tuple[Bit | None, int]:
        """Return the source of a bit, and the number of plain registers on the way."""
        later = 0
        while bit is not None:
            bit = self._flat.root(bit)
            if bit not in self._delayed or later > len(self._delayed):  # a ring of registers has no end
                break
            bit = self._delayed[bit]
            later += 1
        return bit, later

    def compare(self, part: str, wire: str, sources: Sequence[Signal]) -> None:
        """Compare the sources of the bits of a wire with the expected ones."""
        expected = [(source, number, bit) for source in sources for number, bit in enumerate(self._bits(source))]
        taken = self._wire(part, wire)
        if len(taken) != len(expected):
            raise WiringError(f"{part}.{wire} must have {len(expected)} bits, not {len(taken)}")
        for index, (source, number, bit) in enumerate(expected):
            origin, later = self._trace(bit)
            driver, delay = self._trace(taken[index])
            if driver is None or (driver, delay) != (origin, later + source.later):
                raise WiringError(
                    f"{part}.{wire}[{index}] must be {source.bit(number)}, not {self._describe(driver)}{_later(delay)}"
                )

    def check_covered(self, part: str, wires: Collection[str]) -> None:
        """Check that wires are all inputs of a part, or all outputs of the unit."""
        if part == _UNIT:
            missing = sorted(set(self._flat.outputs) - set(wires))
        else:
            interface = self.boxes[part].interface
            known = id(interface), tuple(wires)
            if known not in self._missing:
                reached = {bit for wire in wires for bit in interface.wires[wire]}
                self._missing[known] = [
                    f"{port}[{index}]"
                    for port, width in interface.inputs.items()
                    for index in range(width)
                    if (port, index) not in reached
                ]
            missing = self._missing[known]
        if missing:
            raise WiringError(f"{part}.{missing[0]} must be known to the machine code, which takes no notice of it")

    def _describe(self, bit: Bit | None) -> str:
        """Return the name of a net, for messages."""
        if bit is None or bit < 0:
            return "unknown" if bit is None else f"constant {int(bit == HIGH)}"
        for name, box in self.boxes.items():
            for wire in box.interface.wires:
                # Other wires are inside, or are the same under names of Amaranth's own.
                if wire.startswith("o_") and bit in (bits := self._roots(box.wire(wire))):
                    return f"{name}.{wire}[{bits.index(bit)}]"
        for wire, nets in self._flat.inputs.items():
            if bit in nets:
                return f"{_UNIT}.{wire}[{nets.index(bit)}]"
        return f"the net {self._flat.name_of(bit)}"

    def _roots(self, bits: Sequence[Bit | None]) -> list[Bit | None]:
        return [None if bit is None else self._flat.root(bit) for bit in bits]


def _name(part: str, path: str, rows: Mapping[tuple[int, ...], int]) -> str:
    """Return the name that the rules have for a part."""
    if part == "pe":
        return f"pe({rows[_row(path)]}, {path.rpartition('_')[2]})"
    return f"column({path.rpartition('_')[2]})" if part == "column" else part


def _row(path: str) -> tuple[int, ...]:
    """Return the numbers that identify a processing element's row: those of nested bands, and of the row there."""
    return tuple(int(number) for number in re.findall(r"(?:band|row)_(\d+)\.", path))


def _later(cycles: int) -> str:
    return f" {cycles} {'cycle' if cycles == 1 else 'cycles'} later" if cycles else ""


def _check_lanes(config: MxuConfig, unit: _Unit, part: str, lanes: int) -> None:
    """Check that an edge of several lanes does what as many edges of one lane do, all taken together."""
    compiled = part if part in unit.alone else "edge"
    width = config.weight_width if part == "weight_edge" else config.word_width
    widths = {"i_words": config.source.width, "o_words": width}
    compare = _Comparison(unit, part, compiled)
    for lane in range(lanes):

        def whole(wire: str, index: int, lane: int = lane) -> tuple[str, int]:
            """Return the place in the unit of a bit of an edge of one lane."""
            return wire, index + widths.get(wire, 0) * lane

        compare(f"lane {lane} of {part}", whole)


class _Comparison:
    """A part inside a unit, compared with the part that is compiled."""

    def __init__(self, unit: _Unit, part: str, compiled: str = "") -> None:
        compiled = compiled or part
        module = unit.modules[part]
        self._part = part
        self._interface = read_interface(unit.text, module)  # its signals are known by name, not its ports
        self._inside = Circuit(unit.text, module)
        self._alone = Circuit(unit.alone[compiled], compiled)

    def __call__(self, name: str, whole: Callable[[str, int], tuple[str, int]]) -> None:
        """Check that each output of the part alone is computed inside the unit as it is alone."""

        def find(wire: str, number: int) -> Place:
            signal, index = whole(wire, number)
            places = self._interface.wires.get(signal, ())
            if index >= len(places):
                raise WiringError(f"{self._part} must have the signal {signal}[{index}]")
            return places[index]

        pairs = []
        for wire, bits in self._alone.outputs.items():
            for number, bit in enumerate(bits):
                shown = find(wire, number)
                if isinstance(shown, tuple):  # others are of no use to the unit
                    pairs.append((self._inside.ports[shown[0]][shown[1]], bit))
        difference = find_difference(self._inside, self._alone, pairs, lambda a, b: a == find(*b))
        if difference:
            raise WiringError(f"{name} must be in the unit what it is alone: {difference}")
