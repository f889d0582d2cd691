"""Netlists of designs, read from Yosys's JSON.

The format is that of Yosys's ``write_json``: each bit of a net is a number, or a constant ``"0"``, ``"1"``
or ``"x"``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Bit = int | str
"""A net's number, or a constant: ``"0"``, ``"1"``, ``"x"``."""


@dataclass(frozen=True)
class Cell:
    """A cell of Yosys's JSON."""

    name: str
    type: str
    """Its name, and its module's name or a type of Yosys's own, as in ``$_AND_``."""
    parameters: Mapping[str, str]
    """Parameters as in the JSON, numbers as strings of bits."""
    connections: Mapping[str, tuple[Bit, ...]]
    """The bits at each port, lowest first."""
    inputs: frozenset[str]
    """Names of the ports that are inputs; the others are outputs."""


@dataclass(frozen=True)
class Netlist:
    """A module without hierarchy."""

    name: str
    """Name of the module."""
    inputs: Mapping[str, tuple[Bit, ...]]
    outputs: Mapping[str, tuple[Bit, ...]]
    """The bits of each port, lowest first."""
    cells: tuple[Cell, ...]
    """The cells, in no particular order."""
    nets: Mapping[str, tuple[Bit, ...]]
    """The bits of every named net, ports included."""
    initial: Mapping[str, str]
    """The nets that have a value at power-up, by name, a character per bit, highest first."""
    hidden: frozenset[str] = frozenset()
    """The nets that Yosys has named."""
    indices: Mapping[str, range] = field(default_factory=dict)
    """The indices of the bits, lowest bit first, of nets that do not count from 0 up: 4 to 7 of ``q[7:4]``."""

    def bit_names(self, buses: Mapping[str, Sequence[Bit]]) -> Iterator[tuple[Bit, str]]:
        """Each bit of named nets with its name; those that Yosys has named are left out."""
        for name, bits in buses.items():
            if name not in self.hidden:
                indices = self.indices.get(name, range(len(bits)))
                for bit, index in zip(bits, indices, strict=True):
                    word = name.removeprefix("\\")  # which the JSON keeps before $ and digits
                    yield bit, f"{word}[{index}]" if len(bits) > 1 or index else word


def read_netlist(text: str, top: str) -> Netlist:
    """Read module ``top`` from the JSON of Yosys."""
    module = json.loads(text)["modules"][top]

    def ports(direction: str) -> dict[str, tuple[Bit, ...]]:
        return {name: tuple(port["bits"]) for name, port in module["ports"].items() if port["direction"] == direction}

    def cell(name: str, entry: Mapping[str, Any]) -> Cell:
        directions = entry.get("port_directions", {})
        return Cell(
            name,
            entry["type"],
            entry["parameters"],
            {port: tuple(bits) for port, bits in entry["connections"].items()},
            frozenset(port for port, direction in directions.items() if direction == "input"),
        )

    nets = module["netnames"]
    return Netlist(
        top,
        ports("input"),
        ports("output"),
        # Flattening leaves notes about the former hierarchy.
        tuple(cell(name, entry) for name, entry in module["cells"].items() if entry["type"] != "$scopeinfo"),
        {name: tuple(net["bits"]) for name, net in nets.items()},
        {name: net["attributes"]["init"] for name, net in nets.items() if "init" in net["attributes"]},
        frozenset(name for name, net in nets.items() if net.get("hide_name")),
        {name: _indices(net) for name, net in nets.items() if net.get("offset") or net.get("upto")},
    )


def _indices(net: Mapping[str, Any]) -> range:
    first, width = net.get("offset", 0), len(net["bits"])
    return range(first, first + width)[:: -1 if net.get("upto") else 1]
