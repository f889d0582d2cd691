"""A circuit of cells, and its Verilog: the form in which a bitstream or a routed netlist is simulated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

PINS = 64
"""The most input pins, and output pins, of a simulation."""

ZERO, ONE = "1'b0", "1'b1"
"""Constants in place of wires."""


class CircuitError(ValueError):
    """A file describes no circuit that can be simulated; the text says why."""


@dataclass(frozen=True)
class Cell:
    """An instance of a model."""

    model: str
    name: str
    inputs: Mapping[str, tuple[str, ...]]
    """The wires at each input, lowest bit first; constants are ``1'b0`` and ``1'b1``."""
    outputs: Mapping[str, tuple[str | None, ...]]
    """The wires at each output, lowest bit first; ``None``: not connected."""
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Clock:
    """The clock of a simulation."""

    wire: str
    source: str
    """Its source, for people: a pin, or a PLL."""


@dataclass(frozen=True)
class Circuit:
    """Cells between pins."""

    clock: Clock
    inputs: Mapping[str, str]
    """The wire that each input pin drives."""
    outputs: Mapping[str, tuple[str, str]]
    """The wire that drives each output pin, and the one that enables it."""
    cells: tuple[Cell, ...]

    @property
    def census(self) -> dict[str, int]:
        models = sorted(cell.model for cell in self.cells)
        return {model: models.count(model) for model in dict.fromkeys(models)}

    def to_verilog(self, top: str) -> str:
        """A module with the ports ``clk``, ``i``, ``o`` and ``oe``, whose bits are the pins in their order."""
        return "\n".join(self._lines(top)) + "\n"

    def _lines(self, top: str) -> Iterator[str]:
        if max(len(self.inputs), len(self.outputs)) > PINS:
            raise CircuitError(f"inputs and outputs must be at most {PINS} pins each")
        driven = [self.clock.wire, *self.inputs.values()]
        driven += [wire for cell in self.cells for bits in cell.outputs.values() for wire in bits if wire]
        if len(set(driven)) != len(driven):
            twice = next(wire for wire in driven if driven.count(wire) > 1)
            raise CircuitError(f"wire {twice} has two drivers")
        read = [wire for pair in self.outputs.values() for wire in pair]
        read += [wire for cell in self.cells for bits in cell.inputs.values() for wire in bits]
        if floating := {wire.removeprefix("~") for wire in read if "'" not in wire} - set(driven):
            raise CircuitError(f"wire {min(floating)} has no driver")
        yield f"module {top} (input clk, input [{PINS - 1}:0] i, output [{PINS - 1}:0] o, output [{PINS - 1}:0] oe);"
        for wire in dict.fromkeys(driven):
            yield f"wire {wire};"
        yield f"assign {self.clock.wire} = clk;"
        for number, wire in enumerate(self.inputs.values()):
            yield f"assign {wire} = i[{number}];"
        for port, chosen in (("o", 0), ("oe", 1)):
            wires = [wires[chosen] for wires in self.outputs.values()]
            yield f"assign {port} = {_joined((*wires, *[ZERO] * (PINS - len(wires))))};"
        for cell in self.cells:
            yield _instance(cell)
        yield "endmodule"


def _instance(cell: Cell) -> str:
    parameters = ", ".join(f".{name}({value})" for name, value in cell.parameters.items())
    ports = [f".{port}({_joined(wires)})" for port, wires in cell.inputs.items()]
    dummies = ""
    for port, wires in cell.outputs.items():
        names = tuple(wire or f"{cell.name}_{port}_{number}" for number, wire in enumerate(wires))
        ports.append(f".{port}({_joined(names) if any(wires) else ''})")
        dummies += "".join(f"wire {name};\n" for name in names if any(wires) and name not in wires)
    return f"{dummies}{cell.model} {f'#({parameters}) ' if parameters else ''}{cell.name} ({', '.join(ports)});"


def _joined(wires: tuple[str, ...]) -> str:
    """Wires as one operand, the highest bit first."""
    return wires[0] if len(wires) == 1 else "{" + ", ".join(reversed(wires)) + "}"
