"""What is trained, and what its tables and pictures say: figures that are made up here, and none of PyTorch's."""

from collections import Counter
from dataclasses import replace

import pytest

from openmxu_studies.training.plan import CASES, PLAIN, REFERENCE, STEPS, SWEPT, TASKS, Case, Plan, Trial, name
from openmxu_studies.training.record import Outcome, Passage, Result, Study
from openmxu_studies.training.tables import to_markdown
from openmxu_studies.training.training_plot import to_svg

BF16, FP16, NARROW = Case("bf16"), Case("fp16"), Case("bf16", accumulate="bf16")


def _study(scores: dict[Case, list[float]]) -> Study:
    results = [
        Result(Trial(task, case, seed, STEPS[task]), Outcome(score, 0.25 if case.weight else 0.0, 0.0, 1234567, 60.0))
        for task in TASKS
        for case, several in scores.items()
        for seed, score in enumerate(several)
    ]
    passage = Passage("bf16 unit", "npz", "PyTorch's fp32", 0, 20490, 0.9, 0.875)
    areas = {"fp32 flush": 9000.0, "bf16 flush": 2000.0, "fp16 flush": 2500.0}
    tools = {"torch": "2.13"}
    return Study("2026-01-31", "a machine", tools, True, "mnist", STEPS, tuple(results), (passage,), areas, 7200.0)


SCORES = {
    PLAIN: [0.5, 0.75],
    REFERENCE: [0.5, 0.75],
    BF16: [0.5, 0.7],
    NARROW: [0.25, 0.5],
    FP16: [0.5, float("nan")],
    BF16._replace(weight=-8): [0.5, 0.7],
    FP16._replace(weight=-8): [0.125, 0.125],
}


def test_plans() -> None:
    """The full one has all of the short one and more; every swept case is there with the ordinary loss, too."""
    full, short = list(Plan(full=True).trials()), list(Plan().trials())
    assert {trial._replace(seed=0) for trial in short} < {trial._replace(seed=0) for trial in full}
    for trials in (full, short):
        assert len(set(trials)) == len(trials)
        cases = {(trial.task, trial.case) for trial in trials}
        assert all((task, case._replace(weight=0)) in cases for task, case in cases)
    seeds = Counter((trial.task, trial.case) for trial in full)
    assert {seeds[task, case] for task in TASKS for case in CASES} == {5}
    assert {seeds[task, case._replace(weight=-20)] for task in TASKS for case in SWEPT} == {3}
    assert {trial.seed for trial in Plan(full=True, seeds=1).trials()} == {0}
    assert {trial.source for trial in Plan(source="sklearn").trials()} == {"sklearn"}
    assert len({name(case) for case in CASES}) == len(CASES)


def test_tables() -> None:
    text = to_markdown(_study(SCORES))
    assert text.startswith(
        "`openmxu study training --full`, 2026-01-31, a machine; 10,000 digits of MNIST; 120 minutes"
    )
    assert "250 steps, 2 seeds." in text
    assert "\n| PyTorch's fp32 | 0.6250 | 0.1768 | +0.0000 |  |  |  |  |\n" in text
    assert "\n| bf16 | 0.6000 | 0.1414 | -0.0250 | 0 | 0 | 1,234,567 | 2,000 |\n" in text
    assert "\n| bf16, sums in bf16 | 0.3750 | 0.1768 | -0.2500 | 0 | 0 | 1,234,567 |  |\n" in text
    assert "\n| fp16 | failed |  |  | 0 | 0 | 1,234,567 | 2,500 |\n" in text
    assert "\n| bf16 | 0.6000 (0 lost) | 0.6000 (0.25 lost) |\n" in text
    assert "| bf16 unit | npz | PyTorch's fp32 | 0 of 20,490 | 0.9000 | 0.8750 |\n" in text
    assert "fp16, subnormals" not in text, "it is not in the record"


@pytest.mark.parametrize(
    ("score", "verdict"), [(0.7, "+0.1000 beside one term, within"), (0.4, "-0.2000 beside one term, beyond")]
)
def test_several_terms(score: float, verdict: str) -> None:
    """Their own plan, and a verdict instead of what has one term alone."""
    cases = (REFERENCE, BF16, Case("bf16", terms=4))
    expected = [Trial(task, case, seed, STEPS[task]) for task in TASKS for case in cases for seed in range(5)]
    assert list(Plan(full=True, terms=4).trials()) == expected
    found = replace(_study({**{case: SCORES[case] for case in cases[:2]}, cases[2]: [score, score]}), passages=())
    text = to_markdown(found)
    assert text.startswith("`openmxu study training --full --terms 4`, 2026-01-31, a machine; 10,000 digits")
    assert text.count(f"\n\n4 terms score {verdict} the sd of its seeds, 0.1414.\n") == len(TASKS)
    assert not {"Losses", "From"} & set(text.split())
    assert found.area(cases[2]) is None, "a multiply-add of such an element is no element"


def test_record() -> None:
    found = _study({case: scores for case, scores in SCORES.items() if case != FP16})
    assert Study.of_json(found.to_json()) == found
    assert found.scores("text", BF16) == [0.5, 0.7]
    assert found.area(NARROW) is None


@pytest.mark.parametrize("whole", [True, False])
def test_pictures(*, whole: bool) -> None:
    pytest.importorskip("matplotlib")
    scores = SCORES if whole else {REFERENCE: [0.5], BF16: [0.5]}
    picture = to_svg(_study(scores)).decode()
    assert picture == to_svg(_study(scores)).decode()
    assert picture.count("<svg") == 1
