"""Energies of mapped designs: the record, the plan, and the meter that measures them.

Playing a netlist takes operands and their right results, which the golden model of ``openmxu_sim`` has. Hardware
imports no simulation, so the meter is found as an entry point, as commands are.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from openmxu.area.run.measure import Result
from openmxu.area.run.schedule import Workers
from openmxu.area.subject.foreign import ForeignPoint
from openmxu.area.subject.points import ADDER, CONVERTER, MULTIPLIER, MULTIPLIER_TO_FP32, PROCESSING_ELEMENT, Point
from openmxu.area.target.targets import Target
from openmxu.spec.formats import FORMATS

NORMAL, IDLE = "normal", "idle"

RANDOM = "random"
"""Random inputs in place of operands: each bit except clock and resets is drawn anew each cycle."""

OPERANDS = {
    NORMAL: "normally distributed activations and weights",
    "relu": "the same, with negative activations set to 0",
    "digits": "images of handwritten digits, and the weights of a layer trained on them",
    "zeros": "all activations 0, while normally distributed weights pass through",
    IDLE: "only the clock changes",
}
"""The operands of a part, described in words."""

LAYER = "layer"
"""Operands from the activations and weights of a layer that the user gives."""

METERED = (PROCESSING_ELEMENT, MULTIPLIER, MULTIPLIER_TO_FP32, ADDER, CONVERTER)
"""Parts with known operands."""

_RECIPES = ("area", "sized", "speed")


@dataclass(frozen=True)
class Energy:
    """Energy of a mapped design for a cycle, in pJ: gates and flip-flops with the loads of pins, without wires."""

    result: Result
    """The design, its target, and its area."""
    operands: str
    """A key of :data:`OPERANDS`, or :data:`RANDOM`, or :data:`LAYER`."""
    cycles: int = 0
    """Cycles that were played for each seed."""
    seeds: int = 0
    """Seeds of the operands, each of which gave figures; the fields below are means over them."""
    clock: float = 0.0
    """Energy of clock pins, and of the net between them. There is no clock tree."""
    flip_flops: float = 0.0
    logic: float = 0.0
    """Energy of flip-flops except for their clock pins, with the nets that they drive; energy of gates."""
    at_once: float = 0.0
    """The total, had each net changed once a cycle at most, as if gates had no delay."""
    spread: float = 0.0
    """The standard deviation of the seeds' totals, as a fraction."""
    error: str = ""
    """Why there is no figure; empty if there is one."""

    @property
    def point(self) -> Point:
        """The design."""
        return self.result.point

    @property
    def target(self) -> Target:
        """Its target."""
        return self.result.target

    @property
    def format(self) -> str:
        """The format of its operands."""
        return str(self.point.format)

    @property
    def total(self) -> float:
        """The sum of clock, flip-flops and logic."""
        return self.clock + self.flip_flops + self.logic

    @property
    def multiply_add(self) -> float:
        """An element's energy for each of its terms."""
        return self.total / self.result.point.terms


class Meter(Protocol):
    """Measures results with operands, with the workers ``where``; ``tell`` gets a line of progress for each.

    ``layer`` is the file of a layer, if the plan has such operands: arrays ``activations``, a sample a row, and
    ``weights``, a column for each output.
    """

    def __call__(
        self,
        plan: Sequence[tuple[Result, str]],
        where: Workers,
        tell: Callable[[str], None],
        layer: Path | None = None,
        /,
    ) -> list[Energy]:
        """The energies, in the order of the plan."""
        ...


def find_meter() -> Meter:
    """The installed meter."""
    for point in entry_points(group="openmxu.meters", name="energy"):
        meter: Meter = point.load()
        return meter
    raise OSError("energies are measured by openmxu_sim, which is not installed")


def planned(results: Iterable[Result], *, layer: bool = False) -> list[tuple[Result, str]]:
    """Pairs of result and operands that can be measured, on sound libraries; the generic library has no energies.

    Parts and formats with known operands get those. A user's own design has none: it gets random inputs, and then so do
    our parts beside it. Elements of one stage also get the operands of a ``layer``.
    """
    metered = [result for result in results if result.area is not None and is_metered(result.target, result.point)]
    own = any(_is_own(result) for result in metered)
    return [
        (result, operands)
        for result in metered
        for operands in (*(() if _is_own(result) else _operands_for(result, layer=layer)), *((RANDOM,) if own else ()))
    ]


def _is_own(result: Result) -> bool:
    """Whether a result is that of a user's design."""
    return isinstance(result.point, ForeignPoint)


def is_metered(target: Target, point: Point) -> bool:
    """Whether a design's energy is measured on a target: a sound library, mapped for area or for speed."""
    if target.library is None or target.name == "generic" or target.recipe not in _RECIPES or target.library.doubt:
        return False
    return not point.order and (isinstance(point, ForeignPoint) or _has_operands(point))


def _has_operands(point: Point) -> bool:
    return (
        point.part in METERED
        and point.format is not None
        and point.options.get("subnormals") == "flush"
        and str(point.format) in FORMATS
        and not point.ties
    )


def _operands_for(result: Result, *, layer: bool) -> tuple[str, ...]:
    """All operands, for an element with one stage; :data:`NORMAL` for others, and for the recipe ``sized``.

    Elements of several terms that are measured for their areas, as in full reports, take long: they get :data:`NORMAL`.
    """
    point = result.point
    if point.terms > 1 and point.scope == "area":
        return (NORMAL,)
    if not point.is_element or point.options["stages"] != 1 or result.target.recipe == "sized":
        return (NORMAL,)
    return (*OPERANDS, *([LAYER] if layer else []))
