"""Networks on accelerators of several sizes: their shapes, and what is found of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from onnx import numpy_helper

from openmxu_sim.onnx.runtime import Session  # needs ONNX
from openmxu_studies.networks import foreign, runs, shapes
from openmxu_studies.networks.sizes import Case, Finding, Networks, Share, to_markdown

from ..conftest import Said, needs_compiler
from ..openmxu_sim.onnx import graphs

_CASE = Case("ResNet-20", 2, 1, 16, "4K", "4K", 32)


def _weights(model: Any) -> int:
    return sum(numpy_helper.to_array(each).size for each in model.graph.initializer if each.data_type == 1)


def test_shapes() -> None:
    """The weights of ResNet-50 as published, 25,557,032, biases in place of what normalises; sizes at both ends."""
    channels = [64, *(3 * [64, 64, 256] + 4 * [128, 128, 512] + 6 * [256, 256, 1024] + 3 * [512, 512, 2048])]
    channels += [256, 512, 1024, 2048]  # where the width changes
    assert _weights(shapes.resnet50()) == 25_557_032 - sum(channels)
    # of MobileNetV2 3,504,872, with one number for each of 17,056 channels in place of the two that normalise it
    assert _weights(shapes.mobilenet_v2()) == 3_504_872 - 17_056 + 2  # and the ends of Clip
    small = Session(shapes.resnet20()).run({"input": np.ones((1, 3, 32, 32), np.float32)})
    assert {name: array.shape for name, array in small.items()} == {"scores": (1, 10)}
    block = shapes.transformer_block(5, 12, 3)
    [result] = Session(block).run({"input": np.ones((1, 5, 12), np.float32)}).values()
    assert result.shape == (1, 5, 12)
    assert _weights(shapes.transformer_block()) == 12 * 768**2 + (4 + 4 + 1) * 768


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    model = graphs.model(
        "graph (float[1, 3, 32, 32] input) => (o) { c = Conv <strides = [8, 8]> (input, w) o = Relu (c) }",
        w=np.random.default_rng(0).standard_normal((2, 3, 4, 4)).astype(np.float32),
    )
    monkeypatch.setitem(runs._SHAPES, "ResNet-20", lambda: model)


@needs_compiler
@pytest.mark.usefixtures("small")
def test_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    found = runs.measure(_CASE)
    assert found.products == 16 * 2 * 3 * 16
    assert found.cycles > found.tiles > found.products / 4
    # every eighth pixel is in one bank, so that all that is moved is expected to wait
    assert found.tiles < found.expected < 1.2 * found.cycles
    assert (found.differing, found.words > 3 * 32 * 32) == (0, True)
    slower = [runs.measure(replace(_CASE, **how)) for how in ({"latency": 100}, {"every": 3})]
    assert [each.differing for each in slower] == [0, 0]
    assert min(each.cycles for each in slower) > found.cycles + 100
    define = runs.run

    def other(program: Any, memories: Any) -> Any:
        tags = define(program, memories)
        memories.memory[9] ^= 1
        return tags

    monkeypatch.setattr(runs, "run", other)
    assert runs.measure(_CASE).differing == 1


def test_by_the_formula() -> None:
    """One product of each kind, of known sizes: 12 · 768² · 128 of weights, and two of attention in 12 heads."""
    found = runs.measure(Case("encoder block, 128 tokens, 768 wide", 128, 1, 2048))
    assert found.products == 128 * 12 * 768**2 + 2 * 12 * 128 * 128 * 64
    assert (found.cycles, found.words) == (0, 0)


_FINDING = Finding(_CASE, 1000, 300, 400, 399, 800, 3.5, 0.25, 1.5, 64, 0)


def test_record() -> None:
    record = Networks(
        "2026-01-01", "a machine", {"numpy": "2"}, True, (_FINDING, Finding(_CASE, 9, 9, 0, 0, 9, 1, 0, 0, 0, 0))
    )
    shares = (Share("some==1", "a", 100, 90, 3, 7, "1 Sin"), Share("other==2", "b", 0, 0, 0, 0, "it is wrong"))
    record = replace(record, foreign=(*shares, replace(shares[0], machine=89)))
    assert Networks.of_json(record.to_json()) == record
    text = to_markdown(record)
    assert "| ResNet-20 | 2x2, 1 stage, bank of 16, 4K + 4K, 32 bits | 400 | 399 | 300 | 62.5% | 800 | 2.00 |" in text
    later = to_markdown(replace(record, findings=(replace(_FINDING, case=replace(_CASE, latency=9, every=2)),)))
    assert "16, 4K + 4K, 32 bits, latency 9, a beat in 2 cycles | 400 |  | 300 |" in later
    assert "3.50 bytes a cycle | 25.0% | 75.0% |" in later
    assert "| not compared |" in to_markdown(replace(record, findings=(replace(_FINDING, words=0),)))
    assert "2 of 3 models from packages compile as they are, 1 of them with 90% or more of their products on" in text
    assert "| some==1 | a | 100 | 90.0% | 3 | 7 | 1 Sin |" in text
    assert "| other==2 | b | 0 | 0.0% | refused | 0 | it is wrong |" in text
    assert "3.50 bytes a cycle | 25.0% | 50.0% | 1.5 s | 0 of 64 |" in text


def test_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: a convolution of 9 places with 2 x 3 weights, one of the host's with 4."""
    text = "g (float[n, 3, 3, 3] x) => (o) { a = Conv (x, w) b = Sin (a) c = Sin (b) o = MatMul (c, c) }"
    model = graphs.model(text, w=np.ones((2, 3, 1, 1), np.float32)).SerializeToString()
    monkeypatch.setattr(
        foreign, "from_pypi", lambda package, names: [model] if (package, names) == ("p==1", ["d/m.onnx"]) else []
    )
    found = foreign.share(foreign.Foreign("p==1", "d/m.onnx", {"x": (1, 3, 3, 3)}))
    assert replace(found, cycles=0) == Share("p==1", "m", 54 + 54, 54, 2, 0, "2 Sin, 1 MatMul")
    assert found.cycles > 0
    assert foreign.share(foreign.Foreign("p==1", "d/m.onnx", {})).host.startswith("input x must have sizes")


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: Said) -> None:
    measure = Mock(return_value=_FINDING)
    monkeypatch.setattr(runs, "measure", measure)
    assert "0 of 64" in shown("study networks --json r.json")
    assert [case.size for [case], _ in measure.call_args_list] == [4, 16]
    assert len(json.loads((tmp_path / "r.json").read_text())["findings"]) == 2
