"""The areas of processing elements, on generic gates: what stands beside accuracy and cycles of a unit."""

from collections.abc import Callable, Sequence

from openmxu.area.points import PROCESSING_ELEMENT, point
from openmxu.area.schedule import measure_all, workers
from openmxu.area.targets import choose_targets
from openmxu.config import MxuConfig
from openmxu.yosys import SynthesisError, prepare

__all__ = ["element_areas"]

_LIMIT = 3600.0
"""Seconds that Yosys may take for one."""


def element_areas(units: Sequence[MxuConfig], tell: Callable[[str], None]) -> list[float]:
    """The area of a processing element of each unit, by recipe ``area``, in GE; from the cache where it was measured.

    Parameters
    ----------
    units
        Of which operands, mode and stages matter.
    tell
        Called with a line for each measurement.

    Raises
    ------
    SynthesisError
        Yosys failed.
    OSError
        Yosys does not run.
    """
    prepare(tell)
    [target] = choose_targets(["generic"], [], ["area"])
    points = [point(PROCESSING_ELEMENT, unit.operand, subnormals=unit.subnormals, stages=unit.stages) for unit in units]
    with workers(None, None, _LIMIT) as where:
        results = measure_all([(target, each) for each in points], where, tell)
    areas = []
    for result in results:
        if result.area is None:
            raise SynthesisError(f"the area of {result.point.name} was not measured: {result.error}")
        areas.append(result.area.area)
    return areas
