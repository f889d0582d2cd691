"""Networks are trained as PyTorch trains them; what differs is who multiplies."""

import itertools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-models")
pytest.importorskip("onnxscript", reason="what studies need is not installed: make setup-models")

from openmxu_studies.training import plan as module  # noqa: E402
from openmxu_studies.training import study as spread  # noqa: E402
from openmxu_studies.training.passage import FILES, passages  # noqa: E402
from openmxu_studies.training.plan import Case, Plan, Trial  # noqa: E402
from openmxu_studies.training.record import Study  # noqa: E402
from openmxu_studies.training.tasks import DigitsTask, TextTask  # noqa: E402
from openmxu_studies.training.trial import learn, train, unit  # noqa: E402

from ..conftest import Said, slow  # noqa: E402

TASKS = {"digits": lambda: DigitsTask(3, "sklearn"), "text": lambda: TextTask(3)}
STEPS = 12


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def _trained(task: str, case: Case) -> list[Any]:
    learned = TASKS[task]()
    learn(learned, case, STEPS, unit(case))
    return [parameter.detach() for parameter in learned.model.parameters()]


def _same(one: list[Any], other: list[Any]) -> bool:
    return all(torch.equal(a.view(torch.int32), b.view(torch.int32)) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("task", [slow(task) if task == "digits" else task for task in TASKS])
def test_training_is_pytorchs(task: str) -> None:
    """Without a unit it is the loop that everybody writes."""
    learned = TASKS[task]()
    optimizer = torch.optim.Adam(learned.model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        learned.loss(learned.batch()).backward()
        optimizer.step()
    assert _same(_trained(task, Case(None)), [parameter.detach() for parameter in learned.model.parameters()])


@pytest.mark.filterwarnings("ignore:.* numbers that are not zero become zero in fp16")  # which the test is about
def test_weights_of_the_loss_change_no_bit_in_bf16() -> None:
    """It has the range of fp32; fp16 has not, unless the loss is scaled."""
    plain = _trained("digits", Case("bf16"))
    assert _same(plain, _trained("digits", Case("bf16", weight=-20)))
    assert _same(plain, _trained("digits", Case("bf16", scaling=True)))
    assert not _same(plain, _trained("digits", Case("bf16", terms=8)))
    assert not _same(_trained("digits", Case("fp16")), _trained("digits", Case("fp16", weight=-20)))


def test_what_is_lost() -> None:
    """The gradients of PyTorch's own backward pass that become zero in PyTorch's own fp16."""
    found = {
        case: train(Trial("digits", case, 0, 1, "sklearn"))
        for case in (Case("bf16", weight=-20), *(Case("fp16", weight=w, subnormals="ieee") for w in (0, -8, -12, -20)))
    }
    learned = DigitsTask(0, "sklearn")
    kept: list[Any] = []
    for layer in learned.model:
        if hasattr(layer, "weight"):
            layer.register_forward_hook(lambda layer, given, result: (kept.append(result), result.retain_grad())[1])
    learned.loss(learned.batch()).backward()
    every = torch.cat([result.grad.flatten() for result in kept])
    every = every[every != 0]
    for case, outcome in found.items():
        narrow = (every * 2.0**case.weight).to({"bf16": torch.bfloat16, "fp16": torch.float16}[str(case.operand)])
        assert outcome.lost == float((narrow == 0).sum()) / len(every), case
        assert outcome.overflowed == 0
    assert [outcome.lost for outcome in found.values()] == sorted(outcome.lost for outcome in found.values())
    with np.errstate(over="ignore", invalid="ignore"):
        too_large = np.isnan((every * 2.0**20).numpy().astype(ml_dtypes.float8_e4m3fn))
    overflowed = train(Trial("digits", Case("fp8_e4m3", weight=20), 0, 1, "sklearn")).overflowed
    assert 0 < overflowed == float(too_large.sum()) / len(every)
    with unit(Case("bf16")) as one:
        learned.loss(learned.batch()).backward()
    assert {each.cycles for each in found.values()} == {one.report().cycles}


def test_each_seed_is_another_network_and_every_image_comes_once() -> None:
    first, second = (next(DigitsTask(seed, "sklearn").model.parameters()) for seed in (0, 1))
    assert not torch.equal(first, second)
    assert not torch.equal(TextTask(0).batch(), TextTask(1).batch())
    learned = DigitsTask(0, "sklearn")
    seen: list[int] = []
    learned.images = torch.arange(len(learned.labels))
    learned.model = lambda batch: seen.extend(batch.tolist()) or torch.zeros(len(batch), 10)
    for _ in range(learned.train // learned.BATCH):
        learned.loss(learned.batch())
    assert len(set(seen)) == len(seen) == learned.train // learned.BATCH * learned.BATCH
    assert max(seen) < learned.train


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")  # PyTorch's export warns of PyTorch
def test_passages() -> None:
    found = passages("sklearn", 40)
    everywhere = itertools.product(("bf16 unit", "PyTorch's fp32"), (*FILES, "ONNX"))
    assert {(each.trained, each.file) for each in found} == set(everywhere)
    assert all(each.changed == 0 and each.parameters == 6090 for each in found)
    assert all(abs(each.after - each.before) < 0.02 for each in found if "trained on" not in each.used)
    assert len(found) == 2 * (len(FILES) + 2)


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEPS", {"digits": 3, "text": 2})
    monkeypatch.setattr(module, "_SHORT", (module.REFERENCE, Case("bf16")))
    monkeypatch.setattr(module, "SWEPT", (Case("bf16"),))
    monkeypatch.setattr(spread, "_areas", lambda cases, tell: {"fp32 flush": 1.0, "bf16 flush": 0.5})
    monkeypatch.setattr(spread, "_passages", lambda source: ())


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.usefixtures("_short")
def test_the_command(tmp_path: Path, shown: Said) -> None:
    record, command = tmp_path / "r.json", "study training --digits sklearn --seeds 1 --json r.json --plot r.svg"
    assert "## A small transformer on text" in shown(command)
    found = Study.of_json(record.read_text())
    assert [each.trial for each in found.results] == list(Plan(seeds=1, source="sklearn").trials())
    for each in found.results[::4]:
        again = train(each.trial)
        assert (again.score, again.lost, again.cycles) == (each.outcome.score, each.outcome.lost, each.outcome.cycles)
    assert (tmp_path / "r.svg").read_text().startswith("<?xml")
    shown(command)  # from the cache
    assert Study.of_json(record.read_text()).results == found.results


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.usefixtures("_short")
def test_on_a_cluster(cluster: Any) -> None:
    plan = Plan(seeds=1, source="sklearn")
    there = spread.study(plan, cluster=cluster.scheduler_address)
    here = spread.study(plan)
    assert [each.outcome.score for each in there.results] == [each.outcome.score for each in here.results]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--seeds 0", "seeds must be an integer from 1 to 100, not 0"),
        ("--terms 3", "terms must be 1, 2, 4 or 8, not 3"),
        ("--jobs 1025", "jobs must be an integer from 1 to 1024, not 1025"),
        ("--digits letters", "digits must be one of mnist, sklearn, not 'letters'"),
        ("--cluster nowhere --digits sklearn", "cluster must be the address of a Dask scheduler"),
    ],
)
def test_mistakes(given: str, said: str, refused: Said) -> None:
    assert said in refused(f"study training {given}")
