"""Areas of a cell library that cannot be right, or that say what another library has said.

A gate with inputs held at 0 or 1 is a smaller gate: whoever draws ``!((A+B)*C)`` has drawn ``!(A*C)`` on the way. So no
cell is smaller than the NAND or NOR of two inputs that is left of it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

MOST_INPUTS = 5
"""Inputs of the gates that are looked at."""

_TOLERANCE = 1e-3
"""By which areas may differ from a multiple of others: files give three digits or more."""

NAND, NOR = (True, True, True, False), (True, False, False, False)
"""Tables of the gates that others contain.

What is neither may be drawn in more than one way, and the smaller way within a larger cell.
"""


class Gate(NamedTuple):
    """A cell that stores nothing."""

    name: str
    area: float
    """As its library says."""
    table: tuple[bool, ...]
    """Its output for each combination of its inputs, the first of which is the highest bit."""


def smaller_than_what_they_contain(gates: Sequence[Gate]) -> list[tuple[Gate, Gate]]:
    """Gates of more than two inputs, each with the NAND or NOR that it contains and that is larger."""
    smallest: dict[tuple[bool, ...], Gate] = {}
    for gate in gates:
        if gate.table in (NAND, NOR) and (gate.table not in smallest or gate.area < smallest[gate.table].area):
            smallest[gate.table] = gate
    found = []
    for gate in gates:
        parts = [
            part for table, part in smallest.items() if len(gate.table) > len(table) and table in _left(gate.table)
        ]
        larger = [part for part in parts if part.area > gate.area * (1 + _TOLERANCE)]
        if larger:
            found.append((gate, max(larger, key=lambda part: part.area)))
    return found


def are_scaled(areas: Mapping[str, float], others: Mapping[str, float]) -> float:
    """By what the areas of all cells that two libraries share are those of others; 0 if there is no such number.

    Libraries that share fewer than half of their cells have nothing to do with each other.
    """
    shared = [name for name in areas if areas[name] and others.get(name)]
    if not shared or 2 * len(shared) < max(len(areas), len(others)):
        return 0.0
    ratios = [areas[name] / others[name] for name in shared]
    return ratios[0] if max(ratios) <= min(ratios) * (1 + _TOLERANCE) else 0.0


def _left(table: tuple[bool, ...]) -> set[tuple[bool, ...]]:
    """What can be left of a gate with all inputs but two held."""
    tables = {table}
    while len(next(iter(tables))) > 4:
        tables = {
            tuple(value for index, value in enumerate(each) if (index >> number & 1) == level)
            for each in tables
            for number in range(len(each).bit_length() - 1)
            for level in (0, 1)
        }
    return tables
