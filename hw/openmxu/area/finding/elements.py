"""Areas of processing elements and energies of units, for tables with the accuracy and cycles of a unit."""

from collections.abc import Callable, Sequence

from openmxu.area.finding.units import UnitEnergy, parts_of, unit_energy
from openmxu.area.run.energy import IDLE, NORMAL, find_meter, is_metered
from openmxu.area.run.measure import Result
from openmxu.area.run.schedule import measure_all, workers
from openmxu.area.subject.points import ADDER, CONVERTER, PROCESSING_ELEMENT, point
from openmxu.area.target.targets import Area, choose_targets
from openmxu.cells.liberty import Library
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FORMATS, FP32
from openmxu.yosys import SynthesisError, prepare

_LIMIT = 3600.0
"""Seconds that Yosys may take for one design."""

_RECIPE = "area"


def element_areas(units: Sequence[MxuConfig], tell: Callable[[str], None]) -> list[float]:
    """The area of a processing element of each unit, by recipe ``area``, in GE; from the cache if it is there."""
    prepare(tell)
    [target] = choose_targets(["generic"], [], [_RECIPE])
    points = [
        point(PROCESSING_ELEMENT, unit.operand, subnormals=unit.subnormals, stages=unit.stages, terms=unit.terms)
        for unit in units
    ]
    with workers(None, None, _LIMIT) as where:
        return [area.area for area in _areas(measure_all([(target, element) for element in points], where, tell))]


def _areas(results: Sequence[Result]) -> list[Area]:
    for result in results:
        if result.area is None:
            raise SynthesisError(f"the area of {result.point.name} was not measured: {result.error}")
    return [result.area for result in results if result.area]


def check_energies(unit: MxuConfig) -> None:
    """Refuse a unit whose parts have no known operands, so that its energy cannot be measured."""
    for name, domain, value in (
        ("stages", ["1"], str(unit.stages)),
        ("subnormals", ["flush"], unit.subnormals),
        ("operand", list(FORMATS), str(unit.operand)),
    ):
        if value not in domain:
            raise ValueError(f"{name} must be {' or '.join(domain)} where energies are measured, not {value!r}")


def element_energies(units: Sequence[MxuConfig], library: Library, tell: Callable[[str], None]) -> list[UnitEnergy]:
    """Energy of each unit for a product on a cell library: its parts are mapped for area, measured or looked up, with
    operands of a normal distribution.
    """
    for unit in units:
        check_energies(unit)
    prepare(tell)
    meter = find_meter()
    [target] = choose_targets([], [library], [_RECIPE])
    formats = dict.fromkeys(unit.operand for unit in units)
    elements = dict.fromkeys((unit.operand, unit.terms) for unit in units)
    points = [point(PROCESSING_ELEMENT, fmt, terms=terms) for fmt, terms in elements]
    points += [point(ADDER, FP32), *(point(CONVERTER, fmt) for fmt in formats if fmt != FP32)]
    if not all(is_metered(target, part) for part in points):
        doubt = f": {library.doubt}" if library.doubt else ""
        raise ValueError(f"liberty must be a library with sound areas and energies, not {target.name!r}{doubt}")
    with workers(None, None, _LIMIT) as where:
        results = measure_all([(target, each) for each in points], where, tell, lambda target, point: True)
        _areas(results)
        plan = [(result, NORMAL) for result in results]
        energies = meter([*plan, *((each, IDLE) for each in results[: len(elements)])], where, tell)
    for energy in energies:
        if energy.error:
            raise ValueError(f"the energy of {energy.result.point.name} was not measured: {energy.error}")
    parts = parts_of(energies)[target.name, target.recipe]
    unit_energies = [unit_energy(target.name, target.recipe, unit, parts) for unit in units]
    return [each for each in unit_energies if each is not None]
