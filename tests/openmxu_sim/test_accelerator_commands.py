"""``openmxu compile`` and ``openmxu run``."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from openmxu.cli.frame import main  # noqa: E402
from openmxu.spec.commands import assemble  # noqa: E402
from openmxu_sim.accelerator import shared_bus  # noqa: E402
from openmxu_sim.accelerator.container import read_network  # noqa: E402
from openmxu_sim.accelerator.simulation import Run, SimulatedAccelerator  # noqa: E402
from openmxu_sim.onnx.runtime import Session, load  # noqa: E402

from ..conftest import needs_compiler  # noqa: E402
from .onnx.graphs import model  # noqa: E402

_SIZE = ["--rows", "2", "--columns", "2", "--stages", "1"]
_SMALL = ["--beat", "32", "--scratchpad", "80", "--weights", "100"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a model of a convolution, a dense layer and a softmax, in small integers, and two inputs."""
    rng = np.random.default_rng(1)
    w, d = (rng.integers(-1, 2, shape).astype(np.float32) for shape in ((3, 1, 3, 3), (3 * 4, 5)))
    text = """g (float[1, 1, 4, 4] x) => (float[1, 5] y)
        { [first] c = Conv (x, w) r = Relu (c) f = Flatten (r) [dense] m = MatMul (f, d) [shares] y = Softmax (m) }"""
    onnx.save(model(text, opset=17, ir=8, w=w, d=d), tmp_path / "model.onnx")
    np.savez(tmp_path / "x.npz", x=rng.integers(-2, 3, (2, 1, 4, 4)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _expected(folder: Path) -> np.ndarray:
    images, session = np.load(folder / "x.npz")["x"].astype(np.float32), Session(load(folder / "model.onnx"))
    return np.concatenate([session.run({"x": image[np.newaxis]})["y"] for image in images])


@needs_compiler
def test_compile_and_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "model.onnx", *_SIZE, "-o", "model.mxa"]) == 0
    shown = capsys.readouterr()
    assert "the host computes: Softmax shares: no operator of the accelerator" in shown.err
    assert [line.split()[1] for line in shown.out.splitlines() if "%" in line] == ["first", "dense", "all"]
    assert main(["run", "model.mxa", "--input", "x.npz", "-o", "y.npz", "--check"]) == 0
    shown = capsys.readouterr()
    assert "0 of 65,536 words of the scratchpad differ from the definition." in shown.out
    rows = [re.findall(r"\d[\d,.]*", line) for line in shown.out.splitlines() if "%" in line]
    *layers, every, measured = [[int(cell.replace(",", "")) for cell in row if "." not in cell] for row in rows]
    assert [sum(layer[2] for layer in layers)] == every[2:] == measured  # each lasts until the next begins
    assert all(formula < cycles < formula + 60 for _, formula, cycles in layers)
    assert (np.load("y.npz")["y"] == _expected(folder)).all()


def test_run_of_a_model_by_the_definition(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "model.onnx", *_SIZE, "--input", "x.npz", "-o", "y.npz", "--engine", "model"]) == 0
    assert "easured" not in capsys.readouterr().out
    assert (np.load("y.npz")["y"] == _expected(folder)).all()


def test_a_network_in_stripes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of 4 bytes by hand: 12 are loaded and 4 stored for each of two lines, then 8 and 3; pictures have 27."""
    small = [*_SIZE, "--scratchpad", "80"]
    assert main(["compile", "model.onnx", *small, "-o", "model.mxa"]) == 0
    shown = capsys.readouterr().out
    moved = [line.split("|")[-3:-1] for line in shown.splitlines() if "%" in line]
    assert [int(count) for count, _ in moved] == [128, 44, 172]
    cycles = [int(line.split("|")[3].replace(",", "")) for line in shown.splitlines() if "%" in line]
    assert [rate.strip() for _, rate in moved] == [
        f"{count / taken:.2f}" for count, taken in zip([128, 44, 172], cycles, strict=True)
    ]
    assert "load and store need 108 bytes of memory; " in shown
    for given in (["model.mxa"], ["model.onnx", *small]):
        assert main(["run", *given, "--input", "x.npz", "-o", "y.npz", "--engine", "model"]) == 0
        assert capsys.readouterr().out == shown
        assert (np.load("y.npz")["y"] == _expected(folder)).all()
        assert main(["run", *given, "--input", "x.npz", "-o", "z.npz", "--simulate"]) == 2
        message = "MODEL must be compiled for a scratchpad of at least 100 bytes, not 80, or with --beat: "
        assert message in capsys.readouterr().err
    assert not Path("z.npz").exists()


@needs_compiler
def test_a_network_from_a_memory(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a bus and few rows, on the RTL: the picture, results and weights are in the memory."""
    assert main(["compile", "model.onnx", *_SIZE, *_SMALL, "-o", "m.mxa"]) == 0
    assert main(["run", "m.mxa", "--input", "x.npz", "-o", "y.npz", "--check"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\n0 of \d+ words of the scratchpad differ from the definition\.", shown)
    assert (np.load("y.npz")["y"] == _expected(folder)).all()
    assert main(["compile", "model.onnx", *_SIZE, "--beat", "64"]) == 2
    assert capsys.readouterr().err == "openmxu compile: beat must be 0 or one of 32, not 64\n"


@needs_compiler
def test_accelerators_on_one_bus(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three pictures on two: the last one has the bus for itself. Weights are in the memory once."""
    rng = np.random.default_rng(2)
    np.savez("x.npz", x=rng.integers(-2, 3, (3, 1, 4, 4)))
    together = ["--input", "x.npz", "-o", "y.npz", "--check", "--accelerators"]
    figures = []
    for count in ("1", "2", "3"):
        assert main(["run", "model.onnx", *_SIZE, *_SMALL, *together, count]) == 0
        shown = capsys.readouterr().out
        assert re.search(r"\n0 of \d+ words of the scratchpad differ from the definition\.", shown)
        assert (np.load("y.npz")["y"] == _expected(folder)).all()
        cells = [cell.strip().replace(",", "") for cell in shown.splitlines()[-1].split("|")[1:-1]]
        figures.append([float(cell.rstrip("%")) for cell in cells])
    (*_, reads, writes), *_ = figures
    cycles, alone = [row[2] for row in figures], figures[0][4]
    assert [row[:2] + row[4:5] for row in figures] == [[count, 3, alone] for count in (1, 2, 3)]
    assert cycles[0] == 3 * alone
    assert 2 * alone < cycles[1] < 3 * alone
    assert alone < cycles[2] < cycles[1]
    for row in figures:  # the same beats in fewer cycles
        assert row[3] == round(row[2] / 3)
        assert row[5:] == pytest.approx([share * cycles[0] / row[2] for share in (reads, writes)], abs=0.15 * row[0])
    assert main(["compile", "model.onnx", *_SIZE, *_SMALL]) == 0
    *_, every = (line for line in capsys.readouterr().out.splitlines() if "%" in line)
    moved = every.split("|")[-3]
    assert (reads + writes) / 100 * cycles[0] * 4 == pytest.approx(3 * int(moved.replace(",", "")), rel=0.01)


@needs_compiler
@pytest.mark.usefixtures("folder")
def test_accelerators_share_a_memory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert main(["compile", "model.onnx", *_SIZE, *_SMALL, "-o", "m.mxa"]) == 0
    assert main(["run", "m.mxa", "--input", "x.npz", "--accelerators", "2"]) == 0
    weights = read_network(Path("m.mxa")).lowered.weights.tobytes()
    assert [memory.tobytes().count(weights) for memory in memories] == [1, 1, 1]
    assert memories[1] is memories[2] is not memories[0]
    [alone], (first, last) = reports
    assert first.cycles != last.cycles
    assert f"| {max(first.cycles, last.cycles):,} |" in capsys.readouterr().out
    assert alone.cycles < min(first.cycles, last.cycles)


@needs_compiler
@pytest.mark.usefixtures("folder")
def test_one_of_two_accelerators_stops(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    bad = assemble("pool reads=0 writes=1\nstore rows=0 valid=3 address=0\nend")
    monkeypatch.setattr(shared_bus, "moved", lambda program, words: bad if words else program)
    assert main(["run", "model.onnx", *_SIZE, *_SMALL, "--input", "x.npz", "--accelerators", "2"]) == 1
    assert "command 1 stopped accelerator 1: COMMAND" in capsys.readouterr().err


@needs_compiler
@pytest.mark.usefixtures("folder")
def test_a_wrong_word_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    read = SimulatedAccelerator.scratchpad

    def wrong(machine: SimulatedAccelerator) -> np.ndarray:
        words = read(machine)
        words[7, 1] ^= 1
        return words

    monkeypatch.setattr(SimulatedAccelerator, "scratchpad", wrong)
    assert main(["run", "model.onnx", *_SIZE, "--input", "x.npz", "--check"]) == 1
    assert "2 of 65,536 words of the scratchpad differ from the definition." in capsys.readouterr().out


@needs_compiler
@pytest.mark.usefixtures("folder")
def test_a_program_that_stops(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write = SimulatedAccelerator.write
    bad = assemble("load rows=0 valid=1 address=0\nend")
    monkeypatch.setattr(SimulatedAccelerator, "write", lambda machine, _, memories: write(machine, bad, memories))
    assert main(["run", "model.onnx", *_SIZE, "--input", "x.npz"]) == 1
    assert "command 0 stopped the accelerator: ENGINE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("compile model.onnx --rows 2 --columns 4", "columns must be rows=2 in an accelerator, not 4"),
        ("compile model.onnx --scratchpad 64G", "scratchpad must be a number of bytes, such as 64K or 1M, not '64G'"),
        ("compile model.onnx --scratchpad 3", "scratchpad must be from 8 to 524288 bytes for 4x4, not 3"),
        ("compile model.onnx --weights 1G", "weights must be a number of bytes"),
        ("compile model.onnx --rows 40000 --columns 40000", "rows times columns must be at most 16777216"),
        ("compile model.onnx --scratchpad 64", "scratchpad must have at least "),
        ("compile model.onnx --weights 64", "weights must have at least "),
        ("compile x.npz", "model must be an ONNX file, not x.npz: "),
        ("compile none.onnx", "none.onnx"),
        ("run x.npz --input x.npz", "MODEL must be a network that openmxu compile wrote, not x.npz: "),
        ("run model.onnx --input other.npz", "--input must have an array x, not z"),
        ("run model.onnx --input none.npz", "x must be pictures, P x C x H x W or P x K, not (0, 1, 4, 4)"),
        ("run model.onnx --input large.npz", "x must have the shape (1, 4, 4), not (1, 5, 4)"),
        ("run model.onnx --input bool.npz", "x must be numbers, not bool"),
        ("run model.onnx --input x.npz --engine model --check", "check requires the simulation"),
        ("run model.mxa --input x.npz --rows 4", "rows must be left out with a compiled network, which has its own"),
        ("run model.onnx --input x.npz --accelerators 2", "accelerators must have a bus: MODEL must be compiled with"),
        (
            "run model.onnx --input x.npz --beat 32 --accelerators 3",
            "accelerators must be from 1 to 2, the pictures of --input, not 3",
        ),
        ("run cut.mxa --input x.npz", "MODEL must be a network that openmxu compile wrote, not cut.mxa: "),
    ],
)
@pytest.mark.usefixtures("folder")
def test_invalid_requests(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("other.npz", z=np.zeros((1, 1, 4, 4)))
    np.savez("none.npz", x=np.zeros((0, 1, 4, 4)))
    np.savez("large.npz", x=np.zeros((1, 1, 5, 4)))
    np.savez("bool.npz", x=np.zeros((1, 1, 4, 4), bool))
    Path("cut.mxa").write_bytes(Path("x.npz").read_bytes()[:-40])
    assert main([*arguments.split(), "-o", "out"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert any(message in line for line in lines), lines
    assert not Path("out").exists()


@needs_compiler
@pytest.mark.usefixtures("folder")
def test_a_program_of_many_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """The machine has room for it; the output has any name."""
    text = "g (float[1, 1, 200, 4] x) => (file) { [first] c = Conv (x, w) file = Relu (c) }"
    w = np.random.default_rng(1).integers(-1, 2, (3, 1, 3, 3)).astype(np.float32)
    long = model(text, opset=17, ir=8, w=w)
    onnx.save(long, "long.ONNX")
    np.savez("x.npz", x=np.random.default_rng(1).integers(-2, 3, (1, 1, 200, 4)))
    assert main(["run", "long.ONNX", *_SIZE, "--depth", "4", "--input", "x.npz", "--check", "-o", "y.npz"]) == 0
    assert re.search(r"\| first \| 99 \|(.|\n)*0 of 32,768 words", capsys.readouterr().out)
    image = np.load("x.npz")["x"].astype(np.float32)
    assert (np.load("y.npz")["file"] == Session(long).run({"x": image})["file"]).all()
