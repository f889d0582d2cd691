"""Errors, rooflines, and layers from files: right where they can be told otherwise, and on their pages."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.passes import PASSES
from openmxu.spec.tiling import cycles
from openmxu_sim import golden
from openmxu_sim.studies import accuracy
from openmxu_sim.studies.layers import read_layers
from openmxu_sim.studies.roofline import LAYERS, Layer, Machine, roofline, to_markdown
from openmxu_sim.studies.roofline_plot import to_svg

from ...conftest import Said, slow

DOCS = Path(__file__).parents[3] / "docs"


def test_errors_are_those_of_the_golden_model() -> None:
    found = accuracy.measure(depths=(128,), seed=5)
    assert found.seed == 5
    assert found == accuracy.Accuracy.of_json(found.to_json())
    assert len(found.by_depth) == 2 * (len(PASSES) + 1)
    generator = np.random.default_rng([5, 128])
    a, b = (generator.normal(size=shape).astype(np.float32) for shape in ((64, 128), (128, 64)))
    for error in found.by_depth[:5]:
        plain = error.precision == "fp32"
        got = golden.matmul(a, b, rows=128, **({"operand": "fp32"} if plain else {"precision": error.precision}))
        exact = np.einsum("mk,kn->mn", a.astype(np.longdouble), b.astype(np.longdouble))
        scale = np.einsum("mk,kn->mn", np.abs(a).astype(np.longdouble), np.abs(b).astype(np.longdouble))
        assert float(np.max(np.abs(got - exact) / scale)) * 2**24 == pytest.approx(error.largest, rel=1e-3)
    unscaled = [error for error in found.by_magnitude if (error.exponent, error.subnormals) == (0, "flush")]
    assert unscaled == list(found.by_depth[:4]), "the same products as above"


def _near(matrix: Any) -> Any:
    """The nearest bf16 numbers of fp32's: integers of eight bits times a power of two."""
    significands, exponents = np.frexp(matrix.astype(np.float32))
    return np.ldexp(np.rint(np.ldexp(significands, 8)), exponents - 8).astype(np.float64)


@pytest.mark.parametrize(
    ("operands", "make", "terms"), [slow("normal", np.positive, 1), ("positive: magnitudes", np.abs, 4)]
)
def test_errors_by_terms_are_those_of_the_golden_model(operands: str, make: Any, terms: int) -> None:
    generator = np.random.default_rng(5)
    a, b = (_near(make(generator.normal(size=shape))) for shape in ((80, 512), (50, 512)))
    got = golden.matmul(a.astype(np.float32), b.T.astype(np.float32), rows=128, terms=terms).astype(np.float64)
    activations, weights, sums = (
        np.vectorize(int, otypes=[object])(np.ldexp(m, e)) for m, e in ((a, 40), (b.T, 40), (got, 80))
    )
    errors = (sums - activations @ weights) * 2**24
    shares = (errors / (abs(activations) @ abs(weights))).astype(float)
    relative = abs(errors / (activations @ weights)).astype(float)
    every = accuracy._by_terms(golden.matmul, 5)
    found = next(error for error in every if (error.operands, error.terms) == (operands, terms))
    expected = shares.mean(), (shares**2).mean() ** 0.5, relative.mean()
    assert (found.bias, found.rms, found.relative) == pytest.approx(expected, abs=5.1e-5)


def test_operands_of_several_terms() -> None:
    normal = np.random.default_rng(1).normal(size=(40, 512))
    a, b = ([make(normal, np.random.default_rng(2), w) for make in accuracy._TESTS.values()] for w in (False, True))
    assert np.array_equal(a[1] == 0, normal < 0)
    assert np.array_equal(b[1], normal)
    assert 0.01 <= b[3].min() < b[3].max() < 1
    assert np.array_equal(np.unique(a[4] / normal), 2.0 ** np.arange(-12, 13))
    assert (a[5] * b[5])[:, 1::2] == pytest.approx((a[5] * b[5])[:, ::2] * (-129 / 128))


@pytest.mark.parametrize(
    ("rms", "bias", "cell"),
    [(1.03, -0.047, "1.030 (-0.05)"), (1.04, 0.0, "1.040† (+0.00)"), (0.9, -0.06, "0.900 (-0.06†)")],
)
def test_errors_are_marked_beyond_three_standard_errors(rms: float, bias: float, cell: str) -> None:
    """Of 4,000 sums with an rms of 1: 0.034 of the rms, and 0.047 of the bias."""
    both = (1, 4000, 1.0, -0.001, 5.0), (4, 4000, rms, bias, 5.0)
    errors = [accuracy.TermsError(name, *figures) for name in accuracy._TESTS for figures in both]
    assert f"\n| normal | 1.000 (+0.00) | {cell} |\n" in accuracy.terms_to_markdown(errors)


def test_the_record_is_what_the_command_gives() -> None:
    """Its first rows; the whole takes longer."""
    record = accuracy.Accuracy.of_json((DOCS / "reference" / "accuracy.json").read_text())
    found = accuracy.measure(depths=(128,))
    assert found.by_depth == tuple(error for error in record.by_depth if error.k == 128)
    assert found.by_magnitude == record.by_magnitude
    assert found.by_terms == record.by_terms
    assert found.cycles == record.cycles


def test_layers_are_those_of_the_networks() -> None:
    """ResNet-50 multiplies 4.09 thousand million times for an image, BERT-base has 85 million weights in its blocks."""
    images = 8
    resnet = sum(layer.count * layer.m * layer.k * layer.n for layer in LAYERS if "ResNet" in layer.network)
    assert resnet / images == pytest.approx(4.09e9, rel=1e-3)
    dense = [layer for layer in LAYERS if "BERT" in layer.network and "head" not in layer.name]
    assert sum(layer.count * layer.k * layer.n for layer in dense) == 12 * (4 * 768**2 + 2 * 768 * 3072)


def test_what_limits() -> None:
    machine = Machine(rows=4, columns=4, clock=100, bandwidth=1)
    layers = Layer("a", "thin", 1000, 4, 4), Layer("a", "thick", 64, 64, 64)
    slow, fast = (roofline(machine, (layer,)).shares[0] for layer in layers)
    assert slow.cycles == cycles(MxuConfig(rows=4, columns=4), 1000, 4, 4)
    assert slow.bytes == {"fp32": 4 * 8016, "bf16 in, fp32 out": 2 * 4016 + 4 * 4000, "bf16": 2 * 8016}
    assert slow.bound == {"fp32": "memory", "bf16 in, fp32 out": "memory", "bf16": "memory"}
    assert slow.seconds["fp32"] == pytest.approx(4 * 8016 / 1e9)
    assert set(fast.bound.values()) == {"unit"}
    assert fast.seconds["bf16"] == fast.seconds["fp32"] == pytest.approx(fast.cycles / 100e6)
    whole = roofline(machine, (slow.layer, Layer("a", "again", 64, 64, 64, count=3)))
    assert whole.seconds("a", "fp32") == pytest.approx(slow.seconds["fp32"] + 3 * fast.seconds["fp32"])


def points(svg: str) -> np.ndarray:
    return np.array(re.findall(r'<use [^>]*\bx="([\d.]+)" y="([\d.]+)"', svg), float)


def labels(svg: str) -> list[str]:
    """What matplotlib draws as outlines, it repeats as comments."""
    return re.findall(r"<!-- (.*?) -->", svg)


def test_the_picture_is_of_today() -> None:
    drawn, other = (to_svg(roofline(machine)).decode() for machine in (Machine(), Machine(bandwidth=100.0)))
    documented = (DOCS / "images/roofline.svg").read_text()
    remedy = "run openmxu roofline --plot docs/images/roofline.svg"
    assert labels(drawn) == labels(documented) != labels(other), remedy
    assert len(points(drawn)) > 20, remedy
    # Versions of matplotlib may place the same point half a point of print apart.
    np.testing.assert_allclose(points(drawn), points(documented), rtol=0, atol=0.5, err_msg=remedy)


def test_commands(shown: Said) -> None:
    figures = Path("figures.json")
    out = shown("roofline --rows 8 --columns 8 --clock 50 --bandwidth 0.5 --json figures.json --plot roof.svg")
    assert "One unit of 8x8, 1 stage, at 50 MHz, 0.0064 Tflop/s, and 0.5 GB/s" in out
    assert json.loads(figures.read_text())["machine"]["rows"] == 8
    assert Path("roof.svg").read_text().count("<svg") == 1
    assert to_markdown(roofline(Machine(8, 8, 1, 50, 0.5))) in out
    Path("gemm.csv").write_text("Layer,M,N,K\none,64,32,16\ntwo,5,6,7\n")
    out = shown("roofline --layers gemm.csv --rows 8 --columns 8 --json figures.json")
    assert "| two | 5 x 7 x 6 | 1 |" in out
    assert [each["layer"]["name"] for each in json.loads(figures.read_text())["shares"]] == ["one", "two"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("roofline --clock 0", "clock must be a number from 0.001 to 1000000, not 0.0"),
        ("roofline --clock inf", "clock must be a number from 0.001 to 1000000, not inf"),
        ("roofline --clock 5e-324", "clock must be a number from 0.001 to 1000000, not 5e-324"),
        ("roofline --bandwidth nan", "bandwidth must be a number from 0.001 to 1000000, not nan"),
        ("roofline --rows 0", "rows must be an integer from 1 to 65536, not 0"),
        ("accuracy --seed -1", "seed must be an integer >= 0, not -1"),
        ("accuracy --json /no/such/folder/x", "output /no/such/folder/x cannot be written: No such"),
    ],
)
def test_mistakes(arguments: str, complaint: str, refused: Said) -> None:
    assert complaint in refused(arguments)


# Layers from files


CONVOLUTIONS = """Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1, 230, 230, 7, 7, 3, 64, 2,

Conv2, 58, 58, 3, 3, 64, 64, 1,
FC, 1, 1, 1, 1, 2048, 1000, 1,
"""


def test_layers_of_convolutions(tmp_path: Path) -> None:
    path = tmp_path / "resnet.csv"
    path.write_text(CONVOLUTIONS)
    layers = read_layers(path)
    sizes = ("Conv1", 112 * 112, 147, 64), ("Conv2", 56 * 56, 576, 64), ("FC", 1, 2048, 1000)
    assert layers == tuple(Layer("resnet", *size) for size in sizes)
    own = {(each.m // 8, each.k, each.n) for each in LAYERS if each.network.startswith("ResNet-50")}
    assert {(each.m, each.k, each.n) for each in layers} <= own


def test_layers_of_products(tmp_path: Path) -> None:
    path = tmp_path / "gemm.csv"
    path.write_text("\ufeffLayer, M, N, K,\nscores, 128, 768, 64,\n")
    assert read_layers(path) == (Layer("gemm", "scores", 128, 64, 768),)


def test_layers_of_a_model(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
    from ..onnx.graphs import model  # noqa: PLC0415  # needs ONNX

    path = tmp_path / "it.onnx"
    onnx.save(model("it (float[n, 4, 3] x, float[3, 2] w) => (y) { [dense] y = MatMul (x, w) }"), path)
    assert read_layers(path) == (Layer("it", "dense, MatMul", 4, 3, 2),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "layers must have the columns M, N, K, or ifmap height, .* has none"),
        ("a,b\n1,2\n", "layers must have the columns .* has a, b"),
        ("M,N,K\n1,2\n", "k must be an integer from 1 to .* in row 2 of .*, not ''"),
        ("M,N,K\n1,2,3\n1,0,3\n", "n must be an integer from 1 to .* in row 3 of .*, not '0'"),
        ("M,N,K\n1,-2,3\n", "n must be an integer .* not '-2'"),
        ("M,N,K\n1,2,9999999999999999\n", "k must be an integer .* not '9999999999999999'"),
        (CONVOLUTIONS.replace("58, 58", "2, 58"), "the filter must fit the image in row 3"),
        ("\udcff", "layers must be a table .* or a model"),
    ],
)
def test_layers_that_are_refused(text: str, said: str, tmp_path: Path, refused: Said) -> None:
    (tmp_path / "layers.csv").write_bytes(text.encode(errors="surrogateescape"))
    assert re.search(said, refused("roofline --layers layers.csv"))
    assert "absent.csv" in refused("roofline --layers absent.csv")
