"""Results of steps in the cache: the same after a round trip, and nothing that is executed."""

import pickle
from typing import Any

import pytest

from openmxu_layout.check.decks import Violations
from openmxu_layout.extract.arrivals import Timing
from openmxu_layout.flow.kept import pack, unpack
from openmxu_layout.place.synthesis import Mapped
from openmxu_layout.placed import Placed
from openmxu_layout.route.routing import Route, Via

from ..drawing.small_layout import small


@pytest.mark.parametrize(
    ("its", "result"),
    [
        (Mapped, Mapped("top", {"u0": "inv"}, {"a[0]": (("u0", "A"), ("u1", "A")), "b": ()}, {"a[0]": "input"})),
        (Placed, small().placed),
        (dict[str, Route], {**small().routes, "none": Route()}),
        (Timing, Timing(0.1 + 0.2, None, -1e-5)),
        (Violations, Violations(91, {"M2.b": 2}, {})),
        (list[tuple[str, frozenset[tuple[Via, str]]]], [("a", frozenset({(Via(0, 1, 2), "Y"), (Via(0, 1, 3), "A")}))]),
        (list[str], ["net \ud800 'x'"]),
        (str, "reason"),
    ],
)
def test_a_result_is_the_same_from_the_cache(its: type[Any], result: Any) -> None:
    again = unpack(its, pack(result))
    assert again == result


def test_types_within_are_kept() -> None:
    route = unpack(dict[str, Route], pack(small().routes))["out"]
    assert (type(route.vias[0]), type(route.pads[0])) == (Via, tuple)


def test_no_pickle_is_read() -> None:
    with pytest.raises(ValueError, match=r"codec|Expecting"):
        unpack(list[str], pickle.dumps(["code"]))
