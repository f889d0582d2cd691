"""Energy of a whole unit for a product, derived from the energies of its parts.

::

    a beat:  R·C / N elements of N terms + (R + C) converters + C adders + shift registers of skew and control
             ───────────────────────────────────────────────────────────────────────────────── = pJ a product
                                              R·C products

Every beat brings R activations, and C weights of the next tile: all of its weights, where tiles have R beats.
Columns' sums are added to those of the bank. Memories, streams, admission, wires and the clock's tree are left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from openmxu.area.run.energy import IDLE, NORMAL, Energy
from openmxu.area.subject.designs import register_bits
from openmxu.area.subject.points import ADDER, CONVERTER, PROCESSING_ELEMENT, kind
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FORMATS, FP32

SIZES = (4, 16, 128)
"""Rows, and columns, of the units that reports show."""

Parts = Mapping[tuple[str, str, str], Energy]
"""Energies on a library with a recipe, by kind of part, format and operands."""


@dataclass(frozen=True)
class UnitEnergy:
    """A unit of elements with one stage, on a library with a recipe; all of it derived."""

    library: str
    recipe: str
    format: str
    """Its cell library, its recipe and its operand format."""
    rows: int
    columns: int
    """Size of its array."""
    elements: float
    around: float
    """pJ of elements, and of all other parts, for a product while every element has a product each cycle."""
    idle: float
    """pJ of elements and registers in an idle cycle, for each product that there could be."""

    def product(self, utilisation: float = 1.0) -> float:
        """Energy of a product in pJ, where the fraction ``utilisation`` of all cycles has one."""
        return self.elements + self.around + (1 / utilisation - 1) * self.idle

    def gflops_per_watt(self, utilisation: float = 1.0) -> float:
        """Two operations a product. The clock does not matter, as nothing leaks here."""
        return 2000 / self.product(utilisation)


def unit_energies(energies: Iterable[Energy]) -> list[UnitEnergy]:
    """Square units of :data:`SIZES`, of each library, recipe and format that has all parts."""
    return [
        unit
        for (library, recipe), parts in parts_of(energies).items()
        for fmt in FORMATS.values()
        for size in SIZES
        if (unit := unit_energy(library, recipe, MxuConfig(rows=size, columns=size, operand=fmt), parts))
    ]


def parts_of(energies: Iterable[Energy]) -> Mapping[tuple[str, str], Parts]:
    """Energies of parts with as few stages as possible, by library and recipe."""
    by_recipe: dict[tuple[str, str], dict[tuple[str, str, str], Energy]] = {}
    for energy in energies:
        point, target = energy.point, energy.target
        if not energy.error and point.options.get("stages") == int(point.is_element):
            parts = by_recipe.setdefault((target.name, target.recipe), {})
            parts[point.kind, energy.format, energy.operands] = energy
    return by_recipe


def unit_energy(library: str, recipe: str, config: MxuConfig, parts: Parts) -> UnitEnergy | None:
    """The energy of a unit of one stage on a library with a recipe; none where a part has no energy."""
    name = str(config.operand)
    busy, still = (parts.get((kind(PROCESSING_ELEMENT, config.terms), name, operands)) for operands in (NORMAL, IDLE))
    adder = parts.get((ADDER, FP32.name, NORMAL))
    converter = parts.get((CONVERTER, name, NORMAL))
    bits = busy.result.area.flip_flops if busy and busy.result.area else 0
    if busy is None or still is None or adder is None or not bits or (converter is None and name != FP32.name):
        return None
    rows, columns = config.rows, config.columns
    registers = sum(register_bits(config))
    edge = (rows + columns) * (converter.total if converter else 0.0) + columns * adder.total
    around = edge + registers * (busy.clock + busy.flip_flops) / bits
    idle = still.multiply_add + registers * still.clock / bits / (rows * columns)
    return UnitEnergy(library, recipe, name, rows, columns, busy.multiply_add, around / (rows * columns), idle)
