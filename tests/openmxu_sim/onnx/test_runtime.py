"""onnxruntime reports nothing, hears Ctrl-C, and says in a line what is wrong with a model."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402  # needs ONNX

from openmxu.cli.frame import main  # noqa: E402
from openmxu_sim.onnx import Network  # noqa: E402
from openmxu_sim.onnx.runtime import ModelError, Session, heard, without_functions  # noqa: E402

FLOAT = TensorProto.FLOAT
OWN = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]


def value(name: str, kind: int = FLOAT, shape: tuple[int, ...] = (2, 2)) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    *nodes: Any, inputs: Any = None, outputs: Any = None, opset: int = 18, ir: int = 10, functions: Any = ()
) -> Any:
    """From x to y, unless said otherwise."""
    graph = helper.make_graph(
        nodes, "graph", [value("x")] if inputs is None else inputs, [value("y")] if outputs is None else outputs
    )
    imports = [helper.make_opsetid("", opset), *OWN[1:]]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir, functions=functions)


def node(operator: str = "Relu", inputs: str = "x", outputs: str = "y", **attributes: Any) -> Any:
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def constant(name: str, array: Any) -> Any:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array)))


def function(name: str, *calls: str) -> Any:
    """A function of a model's own, from v0 on."""
    nodes = [node(each, f"v{n}", f"v{n + 1}", domain="own" * each.startswith("F")) for n, each in enumerate(calls)]
    return helper.make_function("own", name, ["v0"], [f"v{len(calls)}"], nodes, OWN)


def endless(step: Any) -> Any:
    """A loop of 2^62 rounds, from v to w in each."""
    values = [value("i", TensorProto.INT64, ()), value("c", TensorProto.BOOL, ()), value("v")]
    nodes = [step, node("Identity", "c", "d")]
    body = helper.make_graph(nodes, "body", values, [value("d", TensorProto.BOOL, ()), value("w")])
    return model(constant("n", 1 << 62), constant("t", True), node("Loop", "n t x", body=body))


X = np.ones((2, 2), np.float32)

REPORT = """
import os, sys
import numpy as np
from openmxu_sim.onnx import Network
from openmxu_sim.onnx.infer import infer
infer(sys.argv[1], {"x": np.ones((2, 2), np.float32)}, ["bf16"])
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""


@pytest.mark.parametrize("chosen", [None, "0"])
def test_nothing_is_reported(chosen: str | None, tmp_path: Path) -> None:
    """What onnxruntime would report begins with files: an identity of this device, and events. Who wants that may."""
    onnx.save(model(node()), tmp_path / "model.onnx")
    folders = {name: tmp_path / name for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
    for folder in folders.values():
        folder.mkdir()
    environment = {name: text for name, text in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    done = subprocess.run(
        [sys.executable, "-c", REPORT, str(tmp_path / "model.onnx")],
        env=environment | {name: str(folder) for name, folder in folders.items()} | _set(chosen),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{chosen or 1}\n"
    if chosen is None:
        assert [path for folder in folders.values() for path in folder.rglob("*")] == []


def _set(chosen: str | None) -> dict[str, str]:
    return {} if chosen is None else {"ORT_DISABLE_TELEMETRY": chosen}


@pytest.mark.parametrize(
    "compute",
    [
        lambda: Session(endless(node("Neg", "v", "w"))).run({"x": X}),
        lambda: Network(endless(node("Neg", "v", "w"))).run({"x": X}),
        lambda: Network(endless(node("MatMul", "v v", "w"))).run({"x": X}),
    ],
    ids=["onnxruntime", "evaluator", "unit"],
)
def test_an_interrupt(compute: Callable[[], Any]) -> None:
    """It comes at once, and nothing goes on computing."""
    before = threading.active_count()
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compute()
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
    "no graph": onnx.ModelProto(ir_version=10, opset_import=OWN[:1]),
    "a type that is not": model(node(), inputs=[value("x", 99)]),
    "a circle": model(node("Add", "x b", "a"), node("Add", "a x", "b"), node("Relu", "b")),
    "two of a name": model(node(), node("Neg")),
    "no such input": model(node("MatMul", "x w")),
    "no output": model(node(), outputs=[]),
    "opset 0": model(node(), opset=0),
    "opset -1": model(node(), opset=-1),
    "opset 99": model(node(), opset=99),
    "IR 99": model(node(), ir=99),
    "no such operator": model(node("Frobnicate")),
    "no such function": model(node("F0", domain="own")),
    "a function that calls itself": model(node("F", domain="own"), functions=[function("F", "F")]),
    "functions in a circle": model(
        node("F", domain="own"), functions=[function("F", "Relu", "F0"), function("F0", "F")]
    ),
    "functions of one name": model(node("F", domain="own"), functions=[function("F", "Neg"), function("F", "Relu")]),
    "2^40 nodes": model(
        node("F40", domain="own"),
        functions=[function("F0", "Neg"), *(function(f"F{n + 1}", f"F{n}", f"F{n}") for n in range(40))],
    ),
    "2^50 numbers": model(
        constant("s", [1 << 50]), node("ConstantOfShape", "s", "c"), node("ReduceSum", "c", "r"), node("Add", "x r")
    ),
    "a sequence": model(
        node("ConcatFromSequence", axis=0), inputs=[helper.make_tensor_sequence_value_info("x", FLOAT, None)]
    ),
    "a branch too few": model(node("If", "x", then_branch=helper.make_graph([], "then", [], []))),
    "names that act on a terminal": model(node("MatMul", "x \x1b[2Jw")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_models_that_cannot_be_run(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One line, and nothing is written."""
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
    functions = [function("F0", "Neg", "Relu"), function("F1", "F0", "F0", "Neg")]
    found = without_functions(model(node("F1", domain="own"), functions=functions))
    assert [each.op_type for each in found.graph.node] == ["Neg", "Relu", "Neg", "Relu", "Neg"]


def test_the_reason_names_the_model() -> None:
    with pytest.raises(ModelError, match=r"^model must be an ONNX file, not these bytes: it has no graph$"):
        Network(b"")
    text = "^model must have at most 1048576 nodes without functions of its own, not 1099511627776$"
    with pytest.raises(ModelError, match=text):
        Network(HOSTILE["2^40 nodes"])
    with pytest.raises(ModelError, match=r"^functions of a model must not call each other in a circle$"):
        Network(HOSTILE["functions in a circle"])
