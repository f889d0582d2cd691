"""Layers from files, and what the command makes of them."""

import json
from pathlib import Path

import pytest

from openmxu.cli.frame import main
from openmxu_sim.studies.layers import read_layers
from openmxu_sim.studies.roofline import LAYERS, Layer

CONVOLUTIONS = """Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1, 230, 230, 7, 7, 3, 64, 2,

Conv2, 58, 58, 3, 3, 64, 64, 1,
FC, 1, 1, 1, 1, 2048, 1000, 1,
"""


def test_convolutions(tmp_path: Path) -> None:
    """As the record's own layers of ResNet-50, of which SCALE-Sim has one image."""
    path = tmp_path / "resnet.csv"
    path.write_text(CONVOLUTIONS)
    layers = read_layers(path)
    sizes = ("Conv1", 112 * 112, 147, 64), ("Conv2", 56 * 56, 576, 64), ("FC", 1, 2048, 1000)
    assert layers == tuple(Layer("resnet", *size) for size in sizes)
    own = {(each.m // 8, each.k, each.n) for each in LAYERS if each.network.startswith("ResNet-50")}
    assert {(each.m, each.k, each.n) for each in layers} <= own


def test_products(tmp_path: Path) -> None:
    path = tmp_path / "gemm.csv"
    path.write_text("\ufeffLayer, M, N, K,\nscores, 128, 768, 64,\n")
    assert read_layers(path) == (Layer("gemm", "scores", 128, 64, 768),)


def test_a_model(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
    from ..onnx.graphs import model  # noqa: PLC0415  # needs ONNX

    path = tmp_path / "it.onnx"
    onnx.save(model("it (float[n, 4, 3] x, float[3, 2] w) => (y) { [dense] y = MatMul (x, w) }"), path)
    assert read_layers(path) == (Layer("it", "dense, MatMul", 4, 3, 2),)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, figures = tmp_path / "gemm.csv", tmp_path / "figures.json"
    path.write_text("Layer,M,N,K\none,64,32,16\ntwo,5,6,7\n")
    assert main(f"roofline --layers {path} --rows 8 --columns 8 --json {figures}".split()) == 0
    assert "| two | 5 x 7 x 6 | 1 |" in capsys.readouterr().out
    assert [each["layer"]["name"] for each in json.loads(figures.read_text())["shares"]] == ["one", "two"]


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
def test_mistakes(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "layers.csv"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=said):
        read_layers(path)
    assert main(["roofline", "--layers", str(path)]) == 2
    assert main(["roofline", "--layers", str(tmp_path / "absent.csv")]) == 2
