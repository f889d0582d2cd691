"""``openmxu compile`` and ``openmxu run``."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from openmxu.spec.commands import assemble  # noqa: E402
from openmxu_sim.accelerator import shared_bus  # noqa: E402
from openmxu_sim.accelerator.container import read_network  # noqa: E402
from openmxu_sim.accelerator.simulation import Run, SimulatedAccelerator  # noqa: E402
from openmxu_sim.onnx.runtime import Session, load  # noqa: E402

from ..conftest import Command, Said, needs_compiler  # noqa: E402
from .onnx.graphs import model  # noqa: E402

_SIZE = "--rows 2 --columns 2 --stages 1"
_FEW = f"{_SIZE} --scratchpad 80"
_SMALL = f"{_FEW} --beat 32 --weights 100"
_RUN = f"run model.onnx {_SIZE} --input x.npz"
_SHARED = f"run model.onnx {_SMALL} --input x.npz"
_SAME = re.compile(r"\n0 of [\d,]+ words of the scratchpad differ from the definition\.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a model of a convolution, a dense layer and a softmax, in small integers, and two inputs."""
    rng = np.random.default_rng(1)
    w, d = (rng.integers(-1, 2, shape).astype(np.float32) for shape in ((3, 1, 3, 3), (3 * 4, 5)))
    text = """g (float[1, 1, 4, 4] x) => (float[1, 5] y)
        { [first] c = Conv (x, w) r = Relu (c) f = Flatten (r) [dense] m = MatMul (f, d) [shares] y = Softmax (m) }"""
    onnx.save(model(text, opset=17, ir=8, w=w, d=d), tmp_path / "model.onnx")
    np.savez(tmp_path / "x.npz", x=rng.integers(-2, 3, (2, 1, 4, 4)))
    return tmp_path


def _is_right(folder: Path) -> bool:
    """Whether the result is the model's."""
    images, session = np.load(folder / "x.npz")["x"].astype(np.float32), Session(load(folder / "model.onnx"))
    expected = np.concatenate([session.run({"x": image[np.newaxis]})["y"] for image in images])
    return bool((np.load("y.npz")["y"] == expected).all())


def _rows(shown: str) -> list[list[str]]:
    """The cells of rows with a share, without commas."""
    return [
        [cell.strip().replace(",", "") for cell in row.split("|")]
        for row in shown.splitlines()
        if "%" in row and "|" in row
    ]


def test_what_is_left(folder: Path, command: Command) -> None:
    """A part of all products, and operators of which one has another product behind it."""
    w = np.ones((2, 2, 1, 1), np.float32)
    nodes = "[a] c = Conv (x, w) [b] s = Sin (c) [c] d = Conv (s, w) [d] e = Conv (d, w) "
    nodes += "[e] g = Neg (e) [f] y = Conv (g, v)"
    text = f"g (float[1, 2, 5, 1] x, float[2, 2, 1, 1] v) => (float[1, 2, 5, 1] y) {{ {nodes} }}"
    onnx.save(model(text, opset=17, ir=8, w=w), "left.onnx")
    _, _, err = command("compile left.onnx")
    assert err.splitlines()[-3:] == [
        "60 of 80 products on the accelerator, 75.0%; 4 parts",
        "on the host: Conv f, 20 products: v is not a constant",
        "on the host: 1 Sin, 1 Neg",
    ]


@needs_compiler
def test_compile_and_run(folder: Path, command: Command, shown: Said) -> None:
    code, out, err = command("compile model.onnx --rows 2 --stages 1 -o model.mxa --json model.json")
    assert (code, [row[1] for row in _rows(out)]) == (0, ["first", "dense", "all"])
    products = 3 * 4 * 9 + 12 * 5
    assert f"{products} of {products} products on the accelerator, 100.0%; 2 parts\n" in err
    assert err.endswith("on the host: 1 Softmax\n")
    found = json.loads(Path("model.json").read_text(encoding="utf-8"))
    assert found["products"] == {"all": products, "machine": products}
    assert found["host"] == [{"name": "Softmax shares", "products": 0, "reason": "not an operator of the accelerator"}]
    assert found["parts"] == ["machine", "host"]
    assert [[layer[name] for name in ("part", "name", "products", "bytes")] for layer in found["layers"]] == [
        [0, "first", 3 * 4 * 9, 0],
        [0, "dense", 12 * 5, 0],
    ]
    assert found["cycles"] == sum(layer["cycles"] for layer in found["layers"]) == int(_rows(out)[-1][3])
    assert [layer["expected"] for layer in found["layers"]] == [int(row[5]) for row in _rows(out)[:-1]]
    assert f"Expected: {int(_rows(out)[-1][5]):,} cycles, " in out
    expected = int(_rows(out)[-1][5])
    out = shown("run model.mxa --input x.npz -o y.npz --check")
    assert "0 of 65,536 words of the scratchpad differ from the definition." in out
    rows = [re.findall(r"\d[\d,.]*", line) for line in out.splitlines() if "%" in line]
    *layers, every, measured = [[int(cell.replace(",", "")) for cell in row if "." not in cell] for row in rows]
    assert [sum(layer[2] for layer in layers)] == every[2:] == measured  # each lasts until the next begins
    assert abs(expected - measured[0]) <= 8
    assert all(formula < cycles < formula + 60 for _, formula, cycles in layers)
    assert _is_right(folder)


@needs_compiler
@pytest.mark.parametrize("bus", ["", " --beat 32 --accelerators 2"])
@pytest.mark.usefixtures("folder")
def test_a_network_in_parts(bus: str, shown: Said) -> None:
    """On the RTL, twice two images, with an input that all share, and sizes that are given."""
    rng = np.random.default_rng(1)
    w = (rng.integers(-1, 2, (2, 2, 3, 3)) * (rng.random((2, 2, 3, 3)) < 0.3)).astype(np.float32)
    text = """g (float[n, 2, h, 5] x, float[n, 2, h, 5] z, int64 k) => (float[n, 2, h, 5] y, float[n, 2, h, 5] s) {
        a = Conv <pads = [1, 1, 1, 1]> (x, w) b = Conv <pads = [1, 1, 1, 1]> (z, w) c = Add (a, b)
        f = Cast <to = 1> (k) s = Mul (b, f) t = Neg (c) y = Conv <pads = [1, 1, 1, 1]> (t, w) }"""
    several = model(text, opset=17, ir=8, w=w)
    onnx.save(several, "parts.onnx")
    inputs = {name: rng.integers(-2, 3, (4, 2, 4, 5)).astype(np.float32) for name in "xz"}
    np.savez("x.npz", k=3, **inputs)
    out = shown(f"run parts.onnx {_SIZE} --size x=2,2,4,5{bus} --input x.npz --check -o y.npz")
    assert _SAME.search(out)
    found = np.load("y.npz")
    for first in (0, 2):
        expected = Session(several).run(
            {name: array[first:][:2] for name, array in inputs.items()} | {"k": np.array(3)}
        )
        for name, values in expected.items():
            assert (found[name][first:][:2] == values).all(), (name, first)
            assert found[name].shape == (4, 2, 4, 5)
            assert np.abs(values).max() <= 256


def test_a_part_that_needs_a_bus(folder: Path, shown: Said) -> None:
    """Without one its cycles are not known, those of the others are."""
    nodes = "a = Conv (x, w) s = Sin (a) y = Conv <strides = [8, 8]> (s, w)"
    text = f"g (float[1, 2, 48, 48] x) => (float[1, 2, 6, 6] y) {{ {nodes} }}"
    onnx.save(model(text, opset=17, ir=8, w=np.ones((2, 2, 1, 1), np.float32)), "parts.onnx")
    out = shown("compile parts.onnx --rows 4 --scratchpad 20K --json parts.json")
    assert "Expected" not in out
    layers = json.loads(Path("parts.json").read_text(encoding="utf-8"))["layers"]
    assert [(layer["name"], layer["expected"] is None) for layer in layers] == [("a", True), ("y", False)]


@pytest.mark.usefixtures("folder")
def test_what_has_no_room(command: Command) -> None:
    code, _, err = command(f"compile model.onnx {_SIZE} --scratchpad 64")
    assert code == 0
    reason = "scratchpad must have at least 68 bytes for one image row of its results, 17 rows, not 64"
    assert f"on the host: Conv first, 108 products: {reason}\n" in err


def test_inputs_of_other_types(tmp_path: Path, shown: Said, refused: Said) -> None:
    """Of bf16, which numpy's files have as bytes, and of integers, of which some are too large."""
    text = """g (bfloat16[1, 2] x, int8[2] k) => (float[1, 2] y, float[2] z)
        { f = Cast <to = 1> (x) y = MatMul (f, w) z = Cast <to = 1> (k) }"""
    onnx.save(model(text, opset=17, ir=8, w=np.eye(2, dtype=np.float32)), tmp_path / "model.onnx")
    x = np.array([[1, 2], [3, 4], [5, 6]], np.float32).view(np.uint16)[:, 1::2].copy().view("V2")
    np.savez("x.npz", x=x, k=np.array([-7, 8]))
    shown("compile model.onnx -o model.mxa")
    for given in ("model.onnx", "model.mxa"):
        shown(f"run {given} --input x.npz --engine model -o y.npz")
        assert np.load("y.npz")["y"].tolist() == [[1, 2], [3, 4], [5, 6]]
        assert np.load("y.npz")["z"].tolist() == [[-7, 8]] * 3
    for k, message in ((np.array([1, 128]), "others of int64"), (np.ones(2), "float64"), (np.array(["1", "2"]), "<U1")):
        np.savez("wrong.npz", x=x, k=k)
        said = refused("run model.onnx --input wrong.npz --engine model -o z.npz", works=True)
        assert f"k must be numbers that int8 has, not {message}\n" in said


def test_a_network_in_stripes(folder: Path, shown: Said, refused: Said) -> None:
    """Rows of 4 bytes by hand: 12 are loaded and 4 stored for each of two lines, then 8 and 3; pictures have 27."""
    out = shown(f"compile model.onnx {_FEW} -o model.mxa")
    moved = [128, 44, 172]
    assert [row[-3:-1] for row in _rows(out)] == [
        [str(count), f"{count / int(row[3]):.2f}"] for count, row in zip(moved, _rows(out), strict=True)
    ]
    assert "load and store need 108 bytes of memory; " in out
    for given in ("model.mxa", f"model.onnx {_FEW}"):
        assert shown(f"run {given} --input x.npz -o y.npz --engine model") == out
        assert _is_right(folder)
        message = "MODEL must be compiled for a scratchpad of at least 100 bytes, not 80, or with --beat: "
        assert message in refused(f"run {given} --input x.npz -o z.npz --simulate", works=True)
    assert not Path("z.npz").exists()


@needs_compiler
def test_a_network_from_a_memory(folder: Path, shown: Said, refused: Said) -> None:
    """With a bus and few rows, on the RTL: the picture, results and weights are in the memory."""
    shown(f"compile model.onnx {_SMALL} -o m.mxa")
    assert _SAME.search(shown("run m.mxa --input x.npz -o y.npz --check"))
    assert _is_right(folder)
    said = refused(f"compile model.onnx {_SIZE} --beat 64")
    assert said == "openmxu compile: beat must be 0 or one of 32, not 64\n"


_WIDE = {
    "a long vector": ("(float[1, 300] x)", "[a] y = Gemm (x, w)", (300, 5)),
    "a vector of odd length, two layers": ("(float[1, 131] x)", "[a] h = Gemm (x, w) [b] y = Gemm (h, v)", (131, 129)),
    "many channels": ("(float[1, 150, 2, 1] x)", "[a] c = Conv (x, w) y = Flatten (c)", (5, 150, 2, 1)),
    "a stride of more than there are rows": (
        "(float[1, 1, 1, 200] x)",
        "[a] c = Conv <strides = [1, 170]> (x, w) y = Flatten (c)",
        (5, 1, 1, 2),
    ),
}


@pytest.mark.parametrize("name", _WIDE)
@pytest.mark.parametrize("bus", ["", " --beat 64"])
def test_more_words_than_rows(name: str, bus: str, tmp_path: Path, shown: Said) -> None:
    """A row has as many words as the array has columns: what is written is read, and gives the bits of the model."""
    inputs, nodes, shape = _WIDE[name]
    rng = np.random.default_rng(1)
    w, v = (rng.integers(-1, 2, each).astype(np.float32) for each in (shape, (129, 3)))
    wide = model(
        f"g {inputs} => (float[1, n] y) {{ {nodes} }}", opset=17, ir=8, w=w, **({"v": v} if "v)" in nodes else {})
    )
    onnx.save(wide, tmp_path / "model.onnx")
    length = [dim.dim_value for dim in wide.graph.input[0].type.tensor_type.shape.dim]
    np.savez(tmp_path / "x.npz", x=rng.integers(-1, 2, length))
    shown(f"compile model.onnx --rows 4 --columns 4 --scratchpad 800{bus} -o model.mxa")
    shown("run model.mxa --input x.npz -o y.npz --engine model")
    assert _is_right(tmp_path)


@needs_compiler
def test_accelerators_on_one_bus(folder: Path, shown: Said) -> None:
    """Three pictures on two: the last one has the bus for itself. Weights are in the memory once."""
    np.savez("x.npz", x=np.random.default_rng(2).integers(-2, 3, (3, 1, 4, 4)))
    figures = []
    for count in (1, 2, 3):
        out = shown(f"{_SHARED} -o y.npz --check --accelerators {count}")
        assert _SAME.search(out)
        assert _is_right(folder)
        figures.append([float(cell.rstrip("%")) for cell in _rows(out)[-1][1:-1]])
    (*_, reads, writes), *_ = figures
    cycles, alone = [row[2] for row in figures], figures[0][4]
    assert [row[:2] + row[4:5] for row in figures] == [[count, 3, alone] for count in (1, 2, 3)]
    assert cycles[0] == 3 * alone
    assert 2 * alone < cycles[1] < 3 * alone
    assert alone < cycles[2] < cycles[1]
    for row in figures:  # the same beats in fewer cycles
        assert row[3] == round(row[2] / 3)
        assert row[5:] == pytest.approx([share * cycles[0] / row[2] for share in (reads, writes)], abs=0.15 * row[0])
    moved = int(_rows(shown(f"compile model.onnx {_SMALL}"))[-1][-3])
    assert (reads + writes) / 100 * cycles[0] * 4 == pytest.approx(3 * moved, rel=0.01)


@needs_compiler
@pytest.mark.usefixtures("folder")
def test_accelerators_share_a_memory(monkeypatch: pytest.MonkeyPatch, shown: Said) -> None:
    """Weights are in it once; one alone runs before, on a copy, and the last one that ends counts."""
    attach, together = SimulatedAccelerator.attach, SimulatedAccelerator.run_together
    memories, reports = list[np.ndarray](), list[list[Run]]()

    def seen(machine: SimulatedAccelerator, memory: np.ndarray) -> None:
        memories.append(memory)
        attach(machine, memory)

    def noted(machines: Sequence[SimulatedAccelerator]) -> list[Run]:
        reports.append(together(machines))
        return reports[-1]

    monkeypatch.setattr(SimulatedAccelerator, "attach", seen)
    monkeypatch.setattr(SimulatedAccelerator, "run_together", noted)
    shown(f"compile model.onnx {_SMALL} -o m.mxa")
    out = shown("run m.mxa --input x.npz --accelerators 2")
    weights = read_network(Path("m.mxa")).machine[0].lowered.weights.tobytes()
    assert [memory.tobytes().count(weights) for memory in memories] == [1, 1, 1]
    assert memories[1] is memories[2] is not memories[0]
    [alone], (first, last) = reports
    assert first.cycles != last.cycles
    assert f"| {max(first.cycles, last.cycles):,} |" in out
    assert alone.cycles <= min(first.cycles, last.cycles)


@needs_compiler
@pytest.mark.usefixtures("folder")
def test_what_fails(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """With exit code 1: a wrong word; a program that stops, alone or on one of two accelerators."""
    read, write = SimulatedAccelerator.scratchpad, SimulatedAccelerator.write
    refused = assemble("load rows=0 valid=1 address=0\nend")
    stops = assemble("pool reads=0 writes=1\nstore rows=0 valid=3 address=0\nend")

    def wrong(machine: SimulatedAccelerator) -> np.ndarray:
        words = read(machine)
        words[7, 1] ^= 1
        return words

    with monkeypatch.context() as patch:
        patch.setattr(SimulatedAccelerator, "scratchpad", wrong)
        code, out, _ = command(f"{_RUN} --check")
        assert code == 1
        assert "2 of 65,536 words of the scratchpad differ from the definition." in out
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedAccelerator, "write", lambda machine, _, memories: write(machine, refused, memories))
        code, _, err = command(_RUN)
        assert code == 1, err
        assert "command 0 stopped the accelerator: ENGINE" in err, err
    monkeypatch.setattr(shared_bus, "moved", lambda program, words: stops if words else program)
    code, _, err = command(f"{_SHARED} --accelerators 2")
    assert code == 1, err
    assert "command 1 stopped accelerator 1: COMMAND" in err, err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("compile model.onnx --rows 2 --columns 4", "columns must be rows=2 in an accelerator, not 4"),
        ("compile model.onnx --scratchpad 64G", "scratchpad must be a number of bytes, such as 64K or 1M, not '64G'"),
        ("compile model.onnx --scratchpad 3", "scratchpad must be from 8 to 524288 bytes for 4x4, not 3"),
        ("compile model.onnx --weights 1G", "weights must be a number of bytes"),
        ("compile model.onnx --rows 40000 --columns 40000", "rows times columns must be at most 16777216"),
        ("compile model.onnx --weights 64", "weights must have at least "),
        ("compile x.npz", "model must be an ONNX file, not x.npz: "),
        ("compile none.onnx", "none.onnx"),
        ("run x.npz --input x.npz", "MODEL must be a network that openmxu compile wrote, not x.npz: "),
        ("run model.onnx --input other.npz", "--input must have an array x, not z"),
        ("run model.onnx --input none.npz", "x must have the shape P x 1 x 4 x 4, not (0, 1, 4, 4)"),
        ("run model.onnx --input large.npz", "x must have the shape P x 1 x 4 x 4, not (1, 1, 5, 4)"),
        ("run model.onnx --input bool.npz", "x must be numbers that float32 has, not <U1"),
        ("compile model.onnx --size x=1,1,5,5", "--size of x must fit 1,1,4,4, not 1,1,5,5"),
        ("compile model.onnx --size z=1", "--size must name an input of the model, x, not z"),
        ("compile model.onnx --size x=1,1,4,4 --size x=1,1,4,4", "--size must name an input once, not x twice"),
        *(
            (
                f"compile model.onnx --size {text}",
                f"must be a name and sizes from 1 on, such as x=1,3,320,320, not {text}",
            )
            for text in ("x", "x=1,,2", "x=0,1", "x=1,-4", "x=1,2.5", f"x={1 << 31}")
        ),
        ("run model.mxa --input x.npz --size x=1", "size must be left out with a compiled network, which has its own"),
        ("run model.onnx --input x.npz --engine model --check", "check requires the simulation"),
        ("run model.mxa --input x.npz --rows 4", "rows must be left out with a compiled network, which has its own"),
        ("run model.onnx --input x.npz --accelerators 2", "accelerators must have a bus: MODEL must be compiled with"),
        (
            "run model.onnx --input x.npz --beat 32 --accelerators 3",
            "accelerators must be from 1 to 2, the images of --input, not 3",
        ),
        ("run cut.mxa --input x.npz", "MODEL must be a network that openmxu compile wrote, not cut.mxa: "),
    ],
)
@pytest.mark.usefixtures("folder")
def test_invalid_requests(arguments: str, message: str, refused: Said) -> None:
    pictures = {"none": np.zeros((0, 1, 4, 4)), "large": np.zeros((1, 1, 5, 4)), "bool": np.zeros((1, 1, 4, 4), str)}
    for name, array in pictures.items():
        np.savez(f"{name}.npz", x=array)
    np.savez("other.npz", z=np.zeros((1, 1, 4, 4)))
    Path("cut.mxa").write_bytes(Path("x.npz").read_bytes()[:-40])
    assert message in refused(f"{arguments} -o out", works="model.onnx" in arguments)


@needs_compiler
@pytest.mark.usefixtures("folder")
def test_a_program_of_many_commands(shown: Said) -> None:
    """The machine has room for it; the output has any name."""
    text = "g (float[1, 1, 200, 4] x) => (file) { [first] c = Conv (x, w) file = Relu (c) }"
    w = np.random.default_rng(1).integers(-1, 2, (3, 1, 3, 3)).astype(np.float32)
    long = model(text, opset=17, ir=8, w=w)
    onnx.save(long, "long.ONNX")
    np.savez("x.npz", x=np.random.default_rng(1).integers(-2, 3, (1, 1, 200, 4)))
    out = shown(f"run long.ONNX {_SIZE} --depth 4 --input x.npz --check -o y.npz")
    assert re.search(r"\| first \| 99 \|(.|\n)*0 of 32,768 words", out)
    image = np.load("x.npz")["x"].astype(np.float32)
    assert (np.load("y.npz")["file"] == Session(long).run({"x": image})["file"]).all()
