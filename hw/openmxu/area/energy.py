"""Energies of mapped designs: what is measured, of which, and by whom.

To play a netlist takes operands and their right results, which the golden model of ``openmxu_sim`` has. Hardware
imports no simulation, so what measures is found as an entry point, as commands are.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points

from openmxu.area.measure import Result
from openmxu.area.points import ADDER, MULTIPLIER, MULTIPLIER_TO_FP32, PROCESSING_ELEMENT
from openmxu.area.schedule import Workers
from openmxu.formats import FORMATS

__all__ = ["METERED", "NORMAL", "OPERANDS", "Energy", "Meter", "find_meter", "measurable", "operands_for"]

NORMAL = "normal"

OPERANDS = {
    NORMAL: "activations and weights of a normal distribution",
    "relu": "the same, negative activations being 0",
    "digits": "images of handwritten digits, and the weights of a layer that was trained for them",
    "zeros": "all activations 0, while weights of a normal distribution pass by",
    "idle": "nothing changes but the clock",
}
"""What a part is given, in words."""

METERED = (PROCESSING_ELEMENT, MULTIPLIER, MULTIPLIER_TO_FP32, ADDER)
"""What can be measured: parts with known operands."""

_RECIPES = ("area", "speed")


@dataclass(frozen=True)
class Energy:
    """What a mapped design takes for a cycle, in pJ: of gates and flip-flops with the loads of pins, without wires.

    Parameters
    ----------
    result
        The design, its target, and its area.
    operands
        A key of :data:`OPERANDS`.
    cycles
        That were played for each seed.
    seeds
        Of the operands, each of which gave a figure; the others are their means.
    clock
        Of clock pins, and of the net between them. There is no tree.
    flip_flops, logic
        Of flip-flops but for their clock pins, with the nets that they drive; of gates.
    at_once
        The same altogether, had each net changed once a cycle at most, as if gates had no delay.
    spread
        The standard deviation of the seeds' sums, as a fraction.
    error
        Why there is no figure; empty if there is one.
    """

    result: Result
    operands: str
    cycles: int = 0
    seeds: int = 0
    clock: float = 0.0
    flip_flops: float = 0.0
    logic: float = 0.0
    at_once: float = 0.0
    spread: float = 0.0
    error: str = ""

    @property
    def total(self) -> float:
        """All of it."""
        return self.clock + self.flip_flops + self.logic


Meter = Callable[[Sequence[tuple[Result, str]], Workers, Callable[[str], None]], list[Energy]]
"""Measures results with operands, where jobs are done; called with a line of progress for each."""


def find_meter() -> Meter:
    """What measures.

    Raises
    ------
    OSError
        ``openmxu_sim`` is not installed.
    """
    for point in entry_points(group="openmxu.meters", name="energy"):
        found: Meter = point.load()
        return found
    raise OSError("energies are measured by openmxu_sim, which is not installed")


def measurable(results: Iterable[Result]) -> list[Result]:
    """Those of parts and formats whose operands are known, on sound libraries; our own has no energies."""
    return [
        result
        for result in results
        if result.target.library is not None
        and result.target.name != "generic"
        and result.target.recipe in _RECIPES
        and result.point.part in METERED
        and result.point.format is not None
        and result.point.options.get("subnormals") == "flush"
        and str(result.point.format) in FORMATS
        and not result.point.ties
        and not result.target.library.doubt
        and result.area is not None
    ]


def operands_for(result: Result) -> tuple[str, ...]:
    """All, for an element with one stage, by which operands are compared; one for others."""
    point = result.point
    return tuple(OPERANDS) if (point.part, point.options["stages"]) == (PROCESSING_ELEMENT, 1) else (NORMAL,)
