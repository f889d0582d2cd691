"""All imports of onnx and onnxruntime, and how they are used: their models may come from anywhere.

- onnxruntime reports to its maker from the moment on that it is imported, unless this variable forbids it.
- Their exceptions are of many kinds: each becomes a :exc:`ModelError` of one line.
- In the main thread, onnxruntime hears no Ctrl-C: :func:`heard` computes in another one.
"""

import contextvars
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # who has set it to something else has decided

import onnx
import onnx.inliner
import onnxruntime
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import load_op

from openmxu.runtime import process
from openmxu_sim.networks.numerics import EscapeError

__all__ = [
    "ENGINE",
    "ModelError",
    "ModelProto",
    "NodeProto",
    "OpRun",
    "ReferenceEvaluator",
    "Session",
    "TensorProto",
    "ValueInfoProto",
    "go_on",
    "heard",
    "helper",
    "inner_nodes",
    "load",
    "load_op",
    "numpy_helper",
    "optimised",
    "refusals",
    "without_functions",
]

ENGINE = f"onnxruntime {onnxruntime.__version__}"
"""The engine that computes a model without a unit."""

_MOST_NODES = 1 << 20
"""Most nodes of a model whose functions are replaced by their nodes; large networks have thousands."""

_LONGEST = 500
"""Most characters of a reason; some reasons name everything in a model."""

_Name = tuple[str, str, str]
"""Domain, name and overload of an operator, or of a function of the model's own."""

_T = TypeVar("_T")
_work = threading.local()


class ModelError(ValueError):
    """A model cannot be read or computed."""


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Turn exceptions of onnx and onnxruntime in the block into a :exc:`ModelError` that begins with ``what``."""
    try:
        yield
    except (EscapeError, MemoryError, ModelError, OSError):
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ModelError(f"{what}: {reason[:_LONGEST]}") from error


def heard(compute: Callable[[], _T]) -> _T:
    """Return a function's result; for the main thread another one computes it, which begins no node after Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        return compute()
    future: Future[_T] = Future()
    options = onnxruntime.RunOptions()
    options.log_severity_level = _QUIET

    def work() -> None:
        _work.options = options
        try:
            future.set_result(compute())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    try:
        return future.result()
    finally:
        options.terminate = True  # it is done, or this thread was interrupted


def go_on() -> None:
    """Raise if nobody waits for this thread's result, as onnxruntime does before each node."""
    options = getattr(_work, "options", None)
    if options is not None and options.terminate:
        raise ModelError("model cannot be run to its end: it was interrupted")


_QUIET = 4
"""Level of onnxruntime's log: fatal errors alone."""


class Session:
    """A model in onnxruntime, on one thread, without warnings of superfluous parts of a model."""

    def __init__(self, model: ModelProto) -> None:
        with refusals("model cannot be run by onnxruntime"):
            self._session = _open(model, intra_op_num_threads=1)
            self._names = [output.name for output in self._session.get_outputs()]

    def run(
        self, inputs: Mapping[str, npt.NDArray[Any]], refusal: str = "model cannot be run by onnxruntime"
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs, by their names."""
        with refusals(refusal):
            outputs = heard(lambda: self._session.run(self._names, dict(inputs), getattr(_work, "options", None)))
        return dict(zip(self._names, outputs, strict=True))


def _open(model: ModelProto, **settings: Any) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    for name, value in {"log_severity_level": _QUIET, **settings}.items():
        setattr(options, name, value)
    content = model.SerializeToString()
    return heard(lambda: onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"]))


def load(model: "ModelProto | Path | str | bytes") -> ModelProto:
    """Return the model, read if it is a file or the content of one."""
    if isinstance(model, ModelProto):
        return model
    if not isinstance(model, (str, Path, bytes)):
        raise TypeError(f"model must be an ONNX model or its file, not {model!r}")
    what = f"model must be an ONNX file, not {'these bytes' if isinstance(model, bytes) else model}"
    with refusals(what):
        proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    if not proto.HasField("graph"):
        raise ModelError(f"{what}: it has no graph")
    return proto


def optimised(model: ModelProto) -> ModelProto:
    """Return the model as onnxruntime simplifies it for any processor: constants folded, normalisation in weights."""
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with process.workspace() as directory, refusals("model cannot be simplified by onnxruntime"):
        file = str(directory / "model.onnx")
        _open(without_functions(model), graph_optimization_level=level, optimized_model_filepath=file)
        return onnx.load(file)


def without_functions(model: ModelProto) -> ModelProto:
    """Return the model with functions of its own replaced by their nodes."""
    if not model.functions:
        return model
    with refusals("functions of a model cannot be replaced"):
        calls = {(callee.domain, callee.name, callee.overload): _calls(callee.node) for callee in model.functions}
        if len(calls) < len(model.functions):
            raise ModelError("functions of a model must differ in their names")
        sizes: dict[_Name, int] = {}
        for name in _inner_first(calls):
            sizes[name] = sum(count * sizes[callee] for callee, count in calls.get(name, {}).items()) or 1
        size = sum(count * sizes.get(callee, 1) for callee, count in _calls(model.graph.node).items())
        if size > _MOST_NODES:
            raise ModelError(f"model must have at most {_MOST_NODES} nodes without functions of its own, not {size}")
        return onnx.inliner.inline_local_functions(model)


def _inner_first(calls: Mapping[_Name, Collection[_Name]]) -> Iterable[_Name]:
    try:
        return [*TopologicalSorter(calls).static_order()]
    except CycleError:
        raise ModelError("functions of a model must not call each other in a circle") from None


def _calls(nodes: Sequence[NodeProto]) -> Counter[_Name]:
    """Return the number of nodes that call each function or operator."""
    return Counter((node.domain, node.op_type, node.overload) for node in inner_nodes(nodes))


def inner_nodes(nodes: Collection[NodeProto]) -> Iterator[NodeProto]:
    """Yield all nodes, and those of their branches and loops."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from inner_nodes(graph.node)
