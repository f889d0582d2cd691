"""Where the compiled engine does not agree, it is said with what."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from openmxu.spec.formats import BF16, FP32
from openmxu.spec.passes import PASSES
from openmxu_evidence.verify import engine_checks
from openmxu_evidence.verify.agreement import Agreement, compare, compare_with_golden, draw
from openmxu_sim.engines import compiled, pysim
from openmxu_sim.engines.protocol import Run
from openmxu_sim.operands.stimulus import Stimulus

from ...conftest import needs_compiler

pytestmark = needs_compiler

CASE = replace(draw(5, range(1, 5)), m=6, n=5)
NAMED = "seed 5: 3x4, stages=1, terms=1, ieee, depth 32, fp32 to fp32, status, 6x5x5, all patterns, precision high, "


def test_draws() -> None:
    cases = [draw(seed, range(1, 41)) for seed in range(600)]
    drawn: dict[str, Any] = {"stages": range(1, 8), "rows": range(1, 41), "columns": range(1, 41)}
    drawn |= {"terms": (1, 2, 4, 8), "subnormals": ("flush", "ieee"), "status": (False, True)}
    drawn |= {"source": (FP32, BF16), "result": (FP32, BF16)}
    for name, values in drawn.items():
        assert {getattr(case.config, name) for case in cases} == set(values), name
    assert {(case.config.splitter, case.precision) for case in cases} == set(product((False, True), PASSES))
    assert [str(case) for case in cases] == [str(draw(seed, range(1, 41))) for seed in range(600)]


def faulty(change: Callable[[Run], Run]) -> Callable[..., Run]:
    faultless = compiled.run
    return lambda given, **options: change(faultless(given, **options))


def flip(run: Run) -> Run:
    beats = run.beats.copy()
    beats[3, 2] ^= 1 << 31
    beats[3, 3] ^= 1
    return replace(run, beats=beats)


def test_agreement() -> None:
    tiny = replace(draw(5, range(1, 2)), m=6, n=2)
    for found, products in ((compare_with_golden([CASE]), 2), (compare([tiny], pysim.run), 1)):
        assert found == Agreement(products, found.cycles)


def test_cycles_that_stalls_cannot_save() -> None:
    cycles = compiled.run(CASE.stimulus()).cycles

    def save(given: Stimulus, *, stalls: Any) -> Run:
        run = compiled.run(given, stalls=stalls)
        return run if stalls is None else replace(run, cycles=cycles - 1)

    found = compare_with_golden([CASE], engine=save)
    assert found == Agreement(2, 2 * cycles - 1, f"{NAMED}with stalls: {cycles - 1} cycles, expected {cycles} or more")


def miscount(run: Any, **change: int) -> Run:
    return replace(run, counters=run.counters._replace(**change))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (flip, "^word 3, 2: got {wrong:08X}, expected {right:08X}$"),
        (lambda run: replace(run, cycles=run.cycles + 1), "^{more} cycles, expected {cycles}$"),
        (partial(miscount, busy=0), "busy=0, "),
        (partial(miscount, error=3), "error=3"),
        (partial(miscount, cycles=9), "cycles=9, "),
        (partial(miscount, input_stalls=7), "7 cycles stalled by input, where none was late"),
    ],
)
def test_what_differs_from_the_definition(change: Callable[[Run], Run], complaint: str) -> None:
    run = compiled.run(CASE.stimulus())
    right = int(run.beats[3, 2])
    found = compare_with_golden([CASE], engine=faulty(change))
    assert found.products == 1
    complaint = complaint.format(right=right, wrong=right ^ 1 << 31, cycles=run.cycles, more=run.cycles + 1)
    named, _, said = found.first.partition("no stalls: ")
    assert named == NAMED
    assert re.search(complaint, said)


def test_words_and_cycles_that_differ_from_another_engine() -> None:
    found = compare([CASE], compiled.run, engine=faulty(flip))
    assert found.first.startswith(f"{NAMED}with stalls: word 3, 2: got ")
    found = compare([CASE], compiled.run, engine=faulty(lambda run: replace(run, cycles=run.cycles - 1)))
    assert found.first == f"{NAMED}with stalls: {found.cycles} cycles, expected {found.cycles + 1}"
    found = compare([CASE], compiled.run, engine=faulty(lambda run: replace(run, beats=run.beats[1:])))
    beats = compiled.run(CASE.stimulus()).beats
    assert found.first == f"{NAMED}with stalls: words of shape {beats[1:].shape}, expected {beats.shape}"


def test_rows_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_checks.compiled, "run", faulty(lambda run: replace(run, beats=run.beats ^ np.uint32(2))))
    outcome = engine_checks._agree_with_golden([CASE])
    assert outcome.status == "failed"
    assert outcome.looked_at.startswith("1 products, ")
    assert outcome.detail.startswith(f"{NAMED}no stalls: word 0, 0: got ")
    complaint = engine_checks.WiringError("something must be elsewhere")
    monkeypatch.setattr(engine_checks, "check_parts", Mock(side_effect=complaint))
    outcome = engine_checks._check_wiring(CASE.config)
    assert (outcome.status, outcome.detail) == ("failed", "something must be elsewhere")


def test_every_seeded_bug_is_found_and_one_that_is_none_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    bug = engine_checks.SEEDED_BUGS["sums start from -0"]
    harmless = replace(bug, wrong="array.i_psums.eq(0 << 31)")
    monkeypatch.setattr(engine_checks, "SEEDED_BUGS", {"a bug": bug, "none": harmless})
    outcome = engine_checks._find_wrong_units()
    assert (outcome.status, outcome.looked_at, outcome.detail) == ("failed", "2 bugs", "none")
