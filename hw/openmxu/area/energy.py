"""Energies of mapped designs: what is measured, of which, and by whom.

To play a netlist takes operands and their right results, which the golden model of ``openmxu_sim`` has. Hardware
imports no simulation, so what measures is found as an entry point, as commands are.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points

from openmxu.area.measure import Result
from openmxu.area.peers import PeerPoint
from openmxu.area.points import ADDER, MULTIPLIER, MULTIPLIER_TO_FP32, PROCESSING_ELEMENT
from openmxu.area.schedule import Workers
from openmxu.formats import FORMATS

__all__ = ["METERED", "NORMAL", "OPERANDS", "RANDOM", "Energy", "Meter", "find_meter", "planned"]

NORMAL = "normal"

RANDOM = "random"
"""In place of operands: every bit of every input drawn anew each cycle, but those of clock and resets."""

OPERANDS = {
    NORMAL: "activations and weights of a normal distribution",
    "relu": "the same, negative activations being 0",
    "digits": "images of handwritten digits, and the weights of a layer that was trained for them",
    "zeros": "all activations 0, while weights of a normal distribution pass by",
    "idle": "nothing changes but the clock",
}
"""What a part is given, in words."""

METERED = (PROCESSING_ELEMENT, MULTIPLIER, MULTIPLIER_TO_FP32, ADDER)
"""Parts with known operands."""

_RECIPES = ("area", "speed")


@dataclass(frozen=True)
class Energy:
    """What a mapped design takes for a cycle, in pJ: of gates and flip-flops with the loads of pins, without wires.

    Parameters
    ----------
    result
        The design, its target, and its area.
    operands
        A key of :data:`OPERANDS`, or :data:`RANDOM`.
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


def planned(results: Iterable[Result]) -> list[tuple[Result, str]]:
    """What can be measured of some results, on sound libraries; our own has no energies.

    Parts and formats whose operands are known have those. Of a user's own design no operands are known: it has random
    inputs, and where there is one, so have ours beside it.
    """
    found = [result for result in results if _is_measurable(result)]
    own = any(_is_own(result) for result in found)
    return [
        (result, operands)
        for result in found
        for operands in (*(() if _is_own(result) else _operands_for(result)), *((RANDOM,) if own else ()))
    ]


def _is_own(result: Result) -> bool:
    """Whether it is of a user's design."""
    return isinstance(result.point, PeerPoint)


def _is_measurable(result: Result) -> bool:
    target = result.target
    if target.library is None or target.name == "generic" or target.recipe not in _RECIPES:
        return False
    return result.area is not None and not target.library.doubt and (_is_own(result) or _has_operands(result))


def _has_operands(result: Result) -> bool:
    point = result.point
    return (
        point.part in METERED
        and point.format is not None
        and point.options.get("subnormals") == "flush"
        and str(point.format) in FORMATS
        and not point.ties
    )


def _operands_for(result: Result) -> tuple[str, ...]:
    """All, for an element with one stage, by which operands are compared; one for others."""
    point = result.point
    return tuple(OPERANDS) if (point.part, point.options["stages"]) == (PROCESSING_ELEMENT, 1) else (NORMAL,)
