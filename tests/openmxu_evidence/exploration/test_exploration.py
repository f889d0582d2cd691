"""The exploration fails on units with bugs, and on netlists it cannot speak about.

That it closes on units without is checked in test_checks.py.
"""

import ctypes
from dataclasses import replace
from typing import Any

import pytest

from openmxu import yosys
from openmxu.spec.config import MxuConfig
from openmxu.unit.mxu import Mxu
from openmxu_evidence import exploration
from openmxu_evidence.exploration import ExplorationError, explore
from openmxu_evidence.exploration.bugs import SEEDED_BUGS, Bug, seeded
from openmxu_evidence.exploration.word_netlist import WordNetlist, read_unit
from openmxu_sim.netlist.native import compile_c

from ...conftest import slow
from ...scarce import fail_at, scarce

_SMALL = MxuConfig(rows=2, columns=2, depth=2)
_MARKS, _BEAT = 'getattr(admission, f"i_{mark}").eq(', "Value.cast(beat.data)"
_DATA = "self.activations.payload.data[0][0]"


@pytest.fixture(scope="module", autouse=True)
def _yosys() -> None:
    yosys.prepare()


# One for each thing that the exploration can say, some of them in every test run. `openmxu verify --thorough` tries
# all bugs.
@pytest.mark.parametrize(
    ("name", "symptom"),
    [
        slow("swap marks are a cycle late", "a result is wrong"),
        slow("a beat that waits is overwritten", "more is taken than there is room for"),
        ("weights are never kept", "more is taken than there is room for"),
        slow("places are never freed", "results are lost"),
        slow("nothing is taken unless something leaves", "the unit hangs"),
        slow("a result that nobody takes is withdrawn", "a result is withdrawn"),
        slow("sums that stay are emitted", "a result comes that nobody waits for"),
        ("marks are read where no beat is", "a handshake depends on what is undefined"),
        slow("a mistake is told when its beat enters the array", "the error is wrong"),
    ],
)
def test_bugs_are_found(name: str, symptom: str) -> None:
    bug = SEEDED_BUGS[name]
    failure = explore(bug.config, **bug.bounds, unit=seeded(bug)).failure
    assert failure is not None
    first, *cycles = failure.splitlines()
    assert first == symptom
    assert all(line.startswith(f"cycle {cycle}: weights ") for cycle, line in enumerate(cycles))


@pytest.mark.parametrize(("terms", "symptom"), [slow(1, None), (2, "a result is wrong")])
def test_weights_in_the_wrong_order_within_an_element(terms: int, symptom: str | None) -> None:
    """With one term the order is the same; with two, terms are those of another row."""
    bug = Bug("pe", "Cat(self.i_weight, shadow)", "Cat(shadow[self.operand.width :], self.i_weight)")
    unit = replace(_SMALL, columns=1, terms=terms)
    failure = explore(unit, longest_tile=1, longest_sum=1, unit=seeded(bug)).failure
    assert (failure and failure.partition("\n")[0]) == symptom


def test_every_bug_can_be_seeded_that_is_there() -> None:
    assert all(callable(seeded(bug)) for bug in SEEDED_BUGS.values())
    with pytest.raises(ValueError, match=r"right must stand exactly once in openmxu.unit.mxu, not 0 times: 'wombat'"):
        seeded(Bug("mxu", "wombat", "wallaby"))


@pytest.mark.parametrize(
    ("bug", "message"),
    [
        (("mxu", _MARKS, f'{_MARKS}{_DATA} if mark == "emit" else '), "control must not read data"),
        (("mxu", _BEAT, f"{_BEAT}.rotate_left(1)"), "data must be moved as whole words"),
        (
            ("admission", "self.o_shift | ~weights", "self.i_weights"),
            "weights__ready must not depend on weights__valid within the cycle",
        ),
    ],
)
def test_netlists_that_prove_nothing_are_refused(bug: tuple[str, str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WordNetlist(read_unit(seeded(Bug(*bug)), _SMALL), _SMALL)


def test_registers_without_the_clock_are_refused() -> None:
    netlist = read_unit(Mxu, _SMALL)

    def stop(cell: Any) -> Any:
        return replace(cell, connections={**cell.connections, "C": ("0",)}) if cell.type == "$_DFF_P_" else cell

    with pytest.raises(ValueError, match=r"clock of .* must be the port clk"):
        WordNetlist(replace(netlist, cells=tuple(stop(cell) for cell in netlist.cells)), _SMALL)


@pytest.mark.parametrize(
    ("bounds", "error", "message"),
    [
        ({"longest_tile": 3}, ValueError, "longest tile must be from 1 to 2, not 3"),
        ({"longest_sum": 0}, ValueError, "longest sum must be from 1 to 255, not 0"),
        ({"mistakes": -1}, ValueError, "mistakes must be from 0 to 255, not -1"),
        ({"most_states": 1000}, ExplorationError, r"more states than there is room for, after \d+ states of control"),
    ],
)
def test_bounds(bounds: dict[str, int], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        explore(_SMALL, **bounds)


@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 6, 20])
def test_no_memory(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocation fails."""

    def compiled(source: str) -> ctypes.CDLL:
        library = compile_c(scarce(source))
        fail_at(library, number)
        return library

    monkeypatch.setattr(exploration, "compile_c", compiled)
    with pytest.raises(
        ExplorationError, match=r"^more memory than there is, after \d+ states of control and \d+ of data$"
    ):
        explore(replace(_SMALL, columns=1), longest_tile=1, longest_sum=1)
