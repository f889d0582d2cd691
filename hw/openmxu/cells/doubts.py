"""Areas of a cell library that cannot be right, or that repeat those of another library.

A gate with inputs held at 0 or 1 is a smaller gate: a layout of ``!((A+B)*C)`` contains one of ``!(A*C)``. So no cell
is smaller than the NAND or NOR of two inputs that it contains.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

MOST_INPUTS = 5
"""The most inputs of a gate that is checked."""

_TOLERANCE = 1e-3
"""Relative difference of areas that is ignored: files give three digits or more."""

NAND, NOR = (True, True, True, False), (True, False, False, False)
"""Truth tables of the gates that larger ones contain.

Any other gate may have more than one layout, and a larger cell may contain the smaller one.
"""


class Gate(NamedTuple):
    """A cell that stores nothing."""

    name: str
    area: float
    """Area in the library's unit."""
    table: tuple[bool, ...]
    """Its output for each combination of its inputs, the first of which is the highest bit."""


def smaller_than_what_they_contain(gates: Sequence[Gate]) -> list[tuple[Gate, Gate]]:
    """Gates of more than two inputs, each with a NAND or NOR that it contains although that is larger."""
    smallest: dict[tuple[bool, ...], Gate] = {}
    for gate in gates:
        if gate.table in (NAND, NOR) and (gate.table not in smallest or gate.area < smallest[gate.table].area):
            smallest[gate.table] = gate
    pairs = []
    for gate in gates:
        parts = [
            part for table, part in smallest.items() if len(gate.table) > len(table) and table in _left(gate.table)
        ]
        larger = [part for part in parts if part.area > gate.area * (1 + _TOLERANCE)]
        if larger:
            pairs.append((gate, max(larger, key=lambda part: part.area)))
    return pairs


def are_scaled(areas: Mapping[str, float], others: Mapping[str, float]) -> float:
    """The factor between the areas of all cells that two libraries share; 0 if there is no common factor.

    It is also 0 for libraries that share fewer than half of the larger one's cells.
    """
    shared = [name for name in areas if areas[name] and others.get(name)]
    if not shared or 2 * len(shared) < max(len(areas), len(others)):
        return 0.0
    ratios = [areas[name] / others[name] for name in shared]
    return ratios[0] if max(ratios) <= min(ratios) * (1 + _TOLERANCE) else 0.0


def _left(table: tuple[bool, ...]) -> set[tuple[bool, ...]]:
    """Truth tables of a gate with all inputs but two held at 0 or 1."""
    tables = {table}
    while len(next(iter(tables))) > 4:
        tables = {
            tuple(value for index, value in enumerate(wider) if (index >> number & 1) == level)
            for wider in tables
            for number in range(len(wider).bit_length() - 1)
            for level in (0, 1)
        }
    return tables
