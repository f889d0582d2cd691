"""onnxruntime reports nothing, hears Ctrl-C, and says in a line what is wrong with a model."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from openmxu.cli.frame import main  # noqa: E402  # needs ONNX
from openmxu_sim.onnx import Network  # noqa: E402
from openmxu_sim.onnx.runtime import ModelError, Session, heard, without_functions  # noqa: E402

from ..networks.programs import run_python  # noqa: E402
from . import graphs  # noqa: E402

RELU = "y = Relu (x)"
OWN = "y = own.F (x)"


def model(nodes: str, *functions: str, x: str = "float[2, 2] x", y: str = "float[2, 2] y", **options: Any) -> Any:
    return graphs.model(f"graph ({x}) => ({y}) {{ {nodes} }}", *functions, **options)


def function(name: str, *calls: str) -> str:
    nodes = " ".join(f"v{n + 1} = {each} (v{n})" for n, each in enumerate(calls))
    return f"{name} (v0) => (v{len(calls)}) {{ {nodes} }}"


X = np.ones((2, 2), np.float32)


@pytest.mark.parametrize("chosen", [None, "0"])
def test_nothing_is_reported(chosen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What onnxruntime would report begins with files: an identity of this device, and events. Who wants that may."""
    onnx.save(model(RELU), tmp_path / "model.onnx")
    (tmp_path / "own").mkdir()
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY")
    environment = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(tmp_path / "own"))
    if chosen:
        environment["ORT_DISABLE_TELEMETRY"] = chosen
    program = """
import os, sys
import numpy as np
from openmxu_sim.onnx.infer import infer
infer(sys.argv[1], {"x": np.ones((2, 2), np.float32)}, ["bf16"])
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""
    assert run_python("-c", program, tmp_path / "model.onnx", **environment) == f"{chosen or 1}\n"
    if chosen is None:
        assert not list((tmp_path / "own").iterdir())


@pytest.mark.parametrize(
    ("engine", "step"), [(Session, "w = Neg (v)"), (Network, "w = Neg (v)"), (Network, "w = MatMul (v, v)")]
)
def test_an_interrupt(engine: Any, step: str) -> None:
    body = f"(int64 i, bool c, float[2, 2] v) => (bool d, float[2, 2] w) {{ {step} d = Identity (c) }}"
    endless = model(f"y = Loop <body = body {body}> (n, t, x)", n=np.array(1 << 62), t=np.array(True))
    before = threading.active_count()
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        engine(endless).run({"x": X})
    while threading.active_count() > before:
        time.sleep(0.01)
    assert time.monotonic() - start < 5


def test_what_is_heard_gives_what_it_would() -> None:
    assert heard(lambda: 3) == 3
    with pytest.raises(KeyError, match="x"), np.errstate(over="raise"):
        heard(lambda: {"raise": {}}[np.geterr()["over"]]["x"])


HOSTILE: dict[str, Any] = {
    "an empty file": b"",
    "no model": b"no model",
    "no graph": onnx.ModelProto(ir_version=10, opset_import=model(RELU).opset_import[:1]),
    "a type that is not": model(RELU),
    "a circle": model("a = Add (x, b) b = Add (a, x) y = Relu (b)"),
    "two of a name": model("y = Relu (x) y = Neg (x)"),
    "no such input": model("y = MatMul (x, w)"),
    "no output": model(RELU, y=""),
    "opset 0": model(RELU, opset=0),
    "opset -1": model(RELU, opset=-1),
    "opset 99": model(RELU, opset=99),
    "IR 99": model(RELU, ir=99),
    "no such operator": model("y = Frobnicate (x)"),
    "no such function": model("y = own.F0 (x)"),
    "a function that calls itself": model(OWN, function("F", "own.F")),
    "functions in a circle": model(OWN, function("F", "Relu", "own.F0"), function("F0", "own.F")),
    "functions of one name": model(OWN, function("F", "Neg"), function("F", "Relu")),
    "2^40 nodes": model(
        "y = own.F40 (x)", function("F0", "Neg"), *(function(f"F{n + 1}", f"own.F{n}", f"own.F{n}") for n in range(40))
    ),
    "2^50 numbers": model("c = ConstantOfShape (s) r = ReduceSum (c) y = Add (x, r)", s=np.array([1 << 50])),
    "a sequence": model("y = ConcatFromSequence <axis = 0> (x)", x="seq(float) x"),
    "a branch too few": model("y = If (x) <then_branch = then () => () {}>"),
    "names that act on a terminal": model("y = MatMul (x, w)"),
}
HOSTILE["a type that is not"].graph.input[0].type.tensor_type.elem_type = 99
HOSTILE["names that act on a terminal"].graph.node[0].input[1] = "\x1b[2Jw"


@pytest.mark.parametrize("name", HOSTILE)
def test_models_that_cannot_be_run(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = HOSTILE[name]
    (tmp_path / "model.onnx").write_bytes(given if isinstance(given, bytes) else given.SerializeToString())
    np.savez(tmp_path / "x.npz", x=X)
    paths = [str(tmp_path / each) for each in ("model.onnx", "x.npz", "report")]
    assert main(["infer", paths[0], "--input", paths[1], "-o", paths[2]]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("openmxu infer: ")
    assert err.count("\n") == 1
    assert err[:-1].isprintable()
    assert not Path(paths[2]).exists()


def test_functions_that_are_replaced() -> None:
    functions = [function("F0", "Neg", "Relu"), function("F1", "own.F0", "own.F0", "Neg")]
    found = without_functions(model("y = own.F1 (x)", *functions))
    assert [each.op_type for each in found.graph.node] == ["Neg", "Relu", "Neg", "Relu", "Neg"]


def test_the_reason_names_the_model() -> None:
    for name, text in (
        ("an empty file", "model must be an ONNX file, not these bytes: it has no graph"),
        ("2^40 nodes", "model must have at most 1048576 nodes without functions of its own, not 1099511627776"),
        ("functions in a circle", "functions of a model must not call each other in a circle"),
    ):
        with pytest.raises(ModelError, match=f"^{text}$"):
            Network(HOSTILE[name])
