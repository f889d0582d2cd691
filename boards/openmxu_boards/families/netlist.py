"""Common parts of the readers of routed netlists: cells, wires with several names, and the resulting circuit."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from openmxu_boards.families.circuit import ONE, ZERO, Cell, Circuit, CircuitError, Clock

Bits = str | None | Sequence[str | None]
"""A wire, or several, the lowest bit first."""

Rule = Callable[[Any, Any], object]


def parse(text: str) -> Mapping[str, Any]:
    try:
        [module] = json.loads(text)["modules"].values()
        if not all(map(_is_cell, module["cells"].values())):
            raise ValueError
        return {**module, "settings": dict(module.get("settings", {}))}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CircuitError("the routed netlist was not written by nextpnr") from None


def _is_cell(cell: Mapping[str, Any]) -> bool:
    """Whether a cell has the fields that readers need."""
    texts = (*cell["attributes"].values(), *cell["parameters"].values(), *cell.get("port_directions", {}).values())
    bits = [bit for port in cell["connections"].values() for bit in port]
    return all(isinstance(text, str) for text in (cell["type"], *texts)) and all(
        type(bit) in (int, str) for bit in bits
    )


def inverse(wire: str) -> str:
    return {ZERO: ONE, ONE: ZERO}.get(wire, f"~{wire}")


class Part:
    """A cell of nextpnr's netlist."""

    def __init__(self, name: str, cell: Any, rename: Callable[[str], str]) -> None:
        self.name, self.kind = name, str(cell["type"])
        self.attributes = dict(cell["attributes"])
        # A text that could be a number ends with a space.
        self.parameters = {key: value.rstrip() for key, value in cell["parameters"].items()}
        self.nets: dict[str, str] = {}
        for port, bits in cell["connections"].items():
            # A bus is one port here, its bits are ports of their own.
            names = [port] if len(bits) == 1 else [f"{port}{number}" for number in range(len(bits))]
            self.nets |= {name: f"n{bit}" for name, bit in zip(names, bits, strict=True)}
        self._rename = rename

    def no_model(self, what: str) -> CircuitError:
        """The error for a part that has no model because it ``what``."""
        return CircuitError(f"cell {self.name}, a {self.kind}, {what}: no model")

    def parameter(self, name: str, default: str) -> str:
        return str(self.parameters.get(name, default))

    def number(self, name: str, default: int) -> int:
        """A parameter in binary."""
        return int(self.parameters[name], 2) if name in self.parameters else default

    def require(self, **allowed: str) -> None:
        """Check that parameters, where they are given, have the values for which there is a model."""
        for name, value in allowed.items():
            if self.parameter(name, value) != value:
                raise self.no_model(f"has {name}={self.parameter(name, '')}")

    def net(self, port: str) -> str | None:
        """The wire at a port, if there is one."""
        return self._rename(self.nets[port]) if port in self.nets else None

    def input(self, port: str, default: str = ONE) -> str:
        """The wire at a port; ``default`` if nothing is connected."""
        return self.net(port) or default

    def inputs(self, ports: Sequence[str], default: str = ONE) -> tuple[str, ...]:
        return tuple(self.input(port, default) for port in ports)

    def outputs(self, ports: Sequence[str]) -> tuple[str | None, ...]:
        return tuple(self.net(port) for port in ports)

    def wire(self, port: str) -> str:
        """The wire at an input that must be connected."""
        wire = self.net(port)
        if wire is None:
            raise self.no_model(f"has nothing at {port}")
        return wire

    def wires(self, port: str, width: int) -> tuple[str, ...]:
        """The wires at an input word, all of whose bits must be connected."""
        return tuple(self.wire(f"{port}{number}" if width > 1 else port) for number in range(width))

    def look_up(self, truth: int, ports: tuple[str, ...]) -> tuple[str, ...]:
        """The inputs of a truth table, which must not depend on one that nothing is connected to."""
        known = {number: self.net(port) == ONE for number, port in enumerate(ports) if self.net(port) in (ZERO, ONE)}
        places = [n for n in range(1 << len(ports)) if all(n >> bit & 1 == high for bit, high in known.items())]
        for number, port in enumerate(ports):
            if self.net(port) is None and any((truth >> n ^ truth >> (n ^ 1 << number)) & 1 for n in places):
                raise self.no_model(f"has nothing at {port}, on which its table depends")
        return self.inputs(ports, ZERO)

    def constant(self, name: str) -> int:
        """A parameter in binary that must be given."""
        if not re.fullmatch("[01]+", self.parameter(name, "")):
            raise self.no_model(f"has {name}={self.parameter(name, '')}")
        return self.number(name, 0)

    def content(self, name: str, rows: int, words: int, bits: tuple[int, int, int], first: int = 0) -> int:
        """The content of a memory, of ``rows`` parameters with ``words`` words each.

        ``bits`` are the bits of a word in a parameter, its used bits from ``first`` on, and its bits in the content.
        """
        size, kept, place = bits
        content = 0
        for row in range(rows):
            given = self.number(f"{name}_{row:02X}", 0) >> first
            for index in range(words):
                content |= (given >> size * index & (1 << kept) - 1) << place * (words * row + index)
        return content


class NetlistReader:
    """From parts to a circuit."""

    part: ClassVar[type[Part]] = Part

    rules: ClassVar[Mapping[str, tuple[Rule | None, Rule | None]]]
    """For each kind of cell, the rules applied before wires have their names, and after that."""

    def __init__(self, module: Mapping[str, Any], clock: str) -> None:
        self._alias: dict[str, str] = {}
        self._parts = [self.part(name, cell, self._follow) for name, cell in module["cells"].items()]
        self._clock, self._clock_wire, self._source = clock, "", f"pin {clock}"
        self._inputs: dict[str, str] = {}
        self._outputs: dict[str, tuple[str, str]] = {}
        self._cells: list[Cell] = []

    def read(self) -> Circuit:
        """The circuit of the netlist. Rules that give wires their names go first."""
        for turn in range(2):
            for part in self._parts:
                if part.kind not in self.rules:
                    raise CircuitError(f"cell {part.name} is a {part.kind}, for which there is no model")
                if rule := self.rules[part.kind][turn]:
                    rule(self, part)
        if not self._clock_wire:
            raise CircuitError(f"nothing in the routed netlist is clocked by pin {self._clock}")
        pin = self._inputs.get(self._clock)
        if any(
            pin in (wire, wire.removeprefix("~"))
            for cell in self._cells
            for bits in cell.inputs.values()
            for wire in bits
        ):
            raise CircuitError(f"pin {self._clock} feeds a PLL and the fabric; only one clock can be simulated")
        return Circuit(Clock(self._clock_wire, self._source), self._inputs, self._outputs, tuple(self._cells))

    def _follow(self, wire: str) -> str:
        while wire in self._alias:
            wire = self._alias[wire]
        return wire

    def _set(self, part: Part, port: str, source: str) -> None:
        """Replace the net at a port, if there is one, by a wire or a constant."""
        if wire := part.net(port):
            self._alias[wire] = source

    def _pass(self, part: Part, source: str, target: str) -> None:
        """Replace the net at ``target`` by that at ``source``, or by a constant 1 where ``source`` has none."""
        self._set(part, target, part.net(source) or ONE)

    def _multiply(self, part: Part, outputs: Sequence[str], locks: Sequence[str]) -> None:
        """Use the one connected output of a PLL as the clock, and let the PLL be locked."""
        outputs = [port for port in outputs if port in part.nets]
        if len(outputs) != 1 or self._clock_wire:
            raise CircuitError(f"cell {part.name}, a PLL, is not the only clock: only one clock can be simulated")
        self._source = "the PLL"
        self._clock_wire = part.nets[outputs[0]]
        for lock in locks:
            self._set(part, lock, ONE)

    def _add_input(self, pin: str, wire: str) -> None:
        if pin == self._clock and not self._clock_wire:
            self._clock_wire = wire
        else:
            self._inputs[pin] = wire

    def _add(self, model: str, outputs: Mapping[str, Bits], inputs: Mapping[str, Bits], **parameters: str) -> None:
        """Add a cell, if one of its outputs is connected."""
        cell = Cell(model, f"cell_{len(self._cells)}", _words(inputs), _words(outputs), parameters)
        if any(wire for wires in cell.outputs.values() for wire in wires):
            self._cells.append(cell)


def _words(ports: Mapping[str, Bits]) -> dict[str, Any]:
    """Ports of one bit as words."""
    return {port: (bits,) if bits is None or isinstance(bits, str) else tuple(bits) for port, bits in ports.items()}


def port_names(name: str, width: int, first: int = 0) -> list[str]:
    """The ports of a word: ``D0``, ``D1`` and so on."""
    return [f"{name}{number}" for number in range(first, first + width)]
