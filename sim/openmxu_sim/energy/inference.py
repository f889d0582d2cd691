"""The energy of a network on a unit: derived from energies of the unit's parts on a cell library."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from openmxu.area.finding.elements import check_energies, element_energies
from openmxu.cells.liberty import Library, read_library
from openmxu.spec.config import MxuConfig
from openmxu_sim.networks.costs import Costs
from openmxu_sim.networks.numerics import Numerics


def with_energies(
    costs: Sequence[Costs], library: Library | Path | str, tell: Callable[[str], None] = lambda line: None
) -> list[Costs]:
    """Return the costs with the energy of each layer. Parts are measured once, in half a minute for each format."""
    for cost in costs:
        check_unit(cost.config, cost.numerics)
    liberty = library if isinstance(library, Library) else read_library(Path(library))
    energies = element_energies([cost.config for cost in costs], liberty, tell)
    return [replace(cost, energy=energy) for cost, energy in zip(costs, energies, strict=True)]


def check_unit(config: MxuConfig, numerics: Numerics) -> None:
    """Refuse a unit whose energies cannot be measured."""
    check_energies(config)
    if not numerics.is_plain or numerics.weight not in (None, numerics.operand):
        sides = ", ".join(dict.fromkeys((numerics.operand, numerics.weight_format)))
        raise ValueError(f"operand must be one format of the hardware where energies are measured, not {sides}")
    if numerics.accumulate != "fp32":
        raise ValueError(f"accumulate must be fp32 where energies are measured, not {numerics.accumulate!r}")
