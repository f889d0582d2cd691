"""Recipes: what is trained, how it is judged, and that the record is what was found."""

from collections import Counter
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-models")
pytest.importorskip("onnxscript", reason="what studies need is not installed: make setup-models")

import openmxu_sim.torch as mxu  # noqa: E402
from openmxu_studies.recipes import recipe_plan, recipe_trials  # noqa: E402
from openmxu_studies.recipes.learners import LEARNERS, ResNet, VisionTransformer  # noqa: E402
from openmxu_studies.recipes.recipe_plan import ELEMENTS, PLAIN, RECIPES, REFERENCE, Plan, Trial  # noqa: E402
from openmxu_studies.recipes.recipe_report import Recipes, Result, recorded_layouts, to_markdown, to_svg  # noqa: E402
from openmxu_studies.training import data  # noqa: E402

from ..conftest import Said  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def _small_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digits that need no network: 28 pixels wide, one class each."""
    digits = data.digits("sklearn")
    wide = digits.images.repeat(4, 2).repeat(4, 3)[:, :, 2:30, 2:30]
    monkeypatch.setattr(data, "digits", lambda source: digits._replace(images=wide))


def test_recipes_are_units() -> None:
    for recipe, options in RECIPES.items():
        assert options is None or mxu.unit(**options).numerics.rows == 128, recipe
    assert set(ELEMENTS) <= set(RECIPES)
    layouts = recorded_layouts()
    assert all(layouts.find("processing element", operand) for operand in ELEMENTS.values())


def test_plans() -> None:
    full, short = list(Plan(full=True).trials()), list(Plan().trials())
    assert {trial.recipe for trial in full} == set(RECIPES)
    assert len(set(full)) == len(full) > len(short)
    seeds = Counter((trial.network, trial.recipe) for trial in full)
    assert seeds["resnet", REFERENCE] == seeds["vit", PLAIN] == 5
    assert seeds["text", REFERENCE] == 3
    assert {trial.network for trial in short} == {"resnet", "vit"}


@pytest.mark.usefixtures("_small_digits")
@pytest.mark.parametrize("network", ["resnet", "vit"])
def test_training_is_pytorchs(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a unit it is the loop that everybody writes; with one, products are the unit's."""
    monkeypatch.setattr("openmxu_studies.training.tasks._digits", _digits)
    trial = Trial(network, PLAIN, 1, 4)
    task, rates = LEARNERS[network](1), recipe_trials._RATES
    optimizer = torch.optim.Adam(task.model.parameters(), lr=1.0)
    for step in range(4):
        optimizer.param_groups[0]["lr"] = rates[network] * [1 / 20, 2 / 20, 3 / 20, 4 / 20][step]
        optimizer.zero_grad()
        task.loss(task.batch()).backward()
        optimizer.step()
    assert recipe_trials.train(trial)["score"] == task.score()
    count = []
    monkeypatch.setattr(mxu, "unit", lambda **options: count.append(options) or mxu.Unit(**options))
    recipe_trials.train(trial._replace(recipe="MXFP8", steps=1))
    assert count == [{"operand": "mxfp8_e4m3", "gradient": "mxfp8_e4m3", "seed": 65538, "threads": 1}]


def _digits(source: str) -> Any:
    digits = data.digits(source)
    return torch.from_numpy(digits.images.copy()), torch.from_numpy(digits.labels), digits.train


def test_networks() -> None:
    images = torch.zeros(2, 1, 28, 28)
    assert ResNet()(images).shape == VisionTransformer(28)(images).shape == (2, 10)
    text = LEARNERS["text"](0)
    assert sum(parameter.numel() for parameter in text.model.parameters()) > 10_000_000


def _record(**scores: list[float]) -> Recipes:
    results = [
        Result(network, recipe, seed, 10, score, 60.0)
        for network in ("vit", "text")
        for recipe, values in {REFERENCE: [0.5, 0.7], **scores}.items()
        for seed, score in enumerate(values)
    ]
    return Recipes("2026-01-01", "machine", {}, True, tuple(results))


@pytest.mark.parametrize(
    ("scores", "accuracy", "loss"),
    [
        ([0.6, 0.8], "as bf16", "as bf16"),
        ([0.65, 0.85], "better", "worse"),
        ([0.35, 0.55], "worse", "better"),
        ([0.64], "as bf16", "as bf16"),
        ([0.65], "better", "worse"),
        ([0.6, nan], "failed", "failed"),
    ],
)
def test_verdicts(scores: list[float], accuracy: str, loss: str) -> None:
    """0.141 is the standard deviation of bf16's scores; single seeds are compared with the same one."""
    record = _record(other=scores)
    assert (record.verdict("vit", "other"), record.verdict("text", "other")) == (accuracy, loss)
    text = to_markdown(record)
    assert f"| other | {len(scores)} | " in text
    assert text.count(f" | {accuracy} |") >= 1


def test_the_record_is_read_back() -> None:
    record = _record(**{"MXFP4": [0.1, 0.2]})
    assert Recipes.of_json(record.to_json()) == record
    drawn = to_svg(record, recorded_layouts()).decode()
    assert drawn.count("MXFP4 (bf16 element)") == 1
    assert "<!-- area, µm² -->" in drawn


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: Said, refused: Said) -> None:
    recipes = Mock(return_value=replace(_record(), full=False))
    monkeypatch.setattr(recipe_trials, "recipes", recipes)
    assert "A vision transformer" in shown("study recipes --jobs 1 --json r.json --plot r.svg")
    [((plan,), options)] = recipes.call_args_list
    assert (plan, options["jobs"], options["cluster"]) == (Plan(full=False), 1, None)
    assert Recipes.of_json((tmp_path / "r.json").read_text()).results == _record().results
    assert (tmp_path / "r.svg").read_text().startswith("<?xml")
    assert "jobs must be an integer from 1 to 1024, not 0" in refused("study recipes --jobs 0")


def test_trials_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice asked, once trained."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    trained = []
    monkeypatch.setattr(recipe_trials, "train", lambda trial: trained.append(trial) or {"score": 0.5, "seconds": 1.0})
    trials = [Trial("vit", recipe, 0, 1) for recipe in (PLAIN, "MXFP4")]
    one, two = recipe_trials.train_all(trials), recipe_trials.train_all([tuple(trial) for trial in trials])
    assert one == two == [(trial, {"score": 0.5, "seconds": 1.0}) for trial in trials]
    assert trained == trials
    assert recipe_plan.STEPS["vit"] > 0


@pytest.mark.slow
@pytest.mark.thorough
def test_on_a_cluster(cluster: Any) -> None:
    """Workers give what processes here do."""

    class Few(Plan):
        def trials(self) -> Any:
            recipes = PLAIN, "NVFP4, gradients at random"
            return iter([Trial("vit", recipe, seed, 2) for recipe in recipes for seed in (0, 1)])

    there = recipe_trials.recipes(Few(), cluster=cluster.scheduler_address)
    here = recipe_trials.recipes(Few())
    assert [result.score for result in there.results] == [result.score for result in here.results]
    assert len(here.results) == 4
