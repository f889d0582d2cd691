"""Libraries whose areas cannot be right, by examples that can be checked in the head."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from openmxu.area.run.choice import choose
from openmxu.area.target.targets import choose_targets
from openmxu.cells.doubts import Gate, are_scaled, smaller_than_what_they_contain
from openmxu.cells.liberty import Library, generic_library, parse_library

from .test_liberty import FLIP_FLOP, cell
from .test_liberty import library as liberty


def gate(name: str, area: float, inputs: int, function: Callable[..., bool]) -> Gate:
    return Gate(name, area, tuple(bool(function(*each)) for each in itertools.product((0, 1), repeat=inputs)))


NAND2 = gate("NAND2", 24, 2, lambda a, b: not (a and b))
NOR2 = gate("NOR2", 20, 2, lambda a, b: not (a or b))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_gate_that_is_too_small(order: tuple[int, ...]) -> None:
    """Whatever the order of its inputs: an or-and-invert has a NAND of two in it, and a NOR."""

    def oai(area: float) -> Gate:
        return gate("OAI21", area, 3, lambda *of: not ((of[order[0]] or of[order[1]]) and of[order[2]]))

    for area, found in ((23, [NAND2]), (19, [NAND2]), (24, []), (40, [])):
        assert smaller_than_what_they_contain([NAND2, NOR2, oai(area)]) == [(oai(area), part) for part in found]
    assert smaller_than_what_they_contain([NOR2, oai(19)]) != []
    assert smaller_than_what_they_contain([oai(1)]) == []


def test_other_gates() -> None:
    """The smallest of several sizes counts; five inputs; what has no NAND and no NOR in it may be of any size."""
    large = NAND2._replace(name="NAND2X4", area=60)
    nand3 = gate("NAND3", 30, 3, lambda a, b, c: not (a and b and c))
    deep = gate("AOI221", 10, 5, lambda a, b, c, d, e: not ((a and b) or (c and d) or e))
    and5 = gate("AND5", 1, 5, lambda *levels: all(levels))
    assert smaller_than_what_they_contain([large, NAND2, nand3]) == []
    assert smaller_than_what_they_contain([large, nand3]) == [(nand3, large)]
    assert smaller_than_what_they_contain([NAND2, deep]) == [(deep, NAND2)]
    assert smaller_than_what_they_contain([NAND2, NOR2, and5]) == []


def test_scaled() -> None:
    """One cell of many says nothing."""
    areas = {"a": 1.0, "b": 2.0, "pad": 0.0, "c": 3.0}
    fourfold = {name: 4 * area for name, area in areas.items()} | {"d": 5.0}
    cases = [fourfold, areas, areas | {"c": 3.1}, {"x": 1.0}, {"a": 1.0}]
    assert [are_scaled(case, areas) for case in cases] == [4, 1, 0, 0, 0]
    assert are_scaled({}, {}) == 0


def library(oai: float, name: str = "small", scale: float = 1.0, function: str = "!((A+B) C)") -> Library:
    gates = [("NAND2", 24, "!(A B)", "AB"), ("OAI21", oai, function, "ABC"), ("MUX2", 30, "(S A) + (!S B)", "ABS")]
    cells = [cell(each, of, area=str(area * scale), inputs=inputs) for each, area, of, inputs in gates]
    return parse_library(liberty(*cells, FLIP_FLOP.replace("area : 5", f"area : {90 * scale}"), name=name), name)


WRONG = "OAI21 (23) contains NAND2 (24), which is larger"


def test_a_library_says_what_is_wrong_with_it() -> None:
    three_state = library(23, function='!((A+B) C)"; three_state : "!C')  # not a gate: it need not drive
    for each, doubt in ((library(23), WRONG), (library(24), ""), (three_state, ""), (generic_library(), "")):
        [target] = choose_targets([], [each], ["area"])
        assert (each.doubt, target.is_ranked) == (doubt, not doubt)


def test_a_family_counts_once(tmp_path: Path) -> None:
    """A report says so; what was first is what counts."""
    paths = []
    for each in (library(30), library(30, "larger", 4.0), library(31, "other"), library(23, "wrong")):
        paths.append(tmp_path / f"{each.name}.lib")
        paths[-1].write_bytes(each.text)
    targets, notes = choose("quick", [], paths, ["area"])
    ranked = [(target.name, target.is_ranked) for target in targets]
    assert ranked == [("small", True), ("larger", False), ("other", True), ("wrong", False)]
    said = "is measured, but no statement is about it:"
    assert notes == [f"larger {said} all areas are those of small times 4", f"wrong {said} {WRONG}"]
