"""All imports of onnx and onnxruntime, and how they are used: their models may come from anywhere.

- onnxruntime reports to its maker from the moment on that it is imported, unless this variable forbids it.
- Their exceptions are of many kinds: each becomes a :exc:`ModelError` of one line.
- In the main thread, onnxruntime hears no Ctrl-C: :func:`heard` computes in another one.
"""

import contextvars
import ctypes
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # who has set it to something else has decided

import onnx
import onnx.inliner
import onnx.shape_inference
import onnxruntime
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    SparseTensorProto,
    TensorProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)
from onnx.defs import SchemaError, get_schema
from onnx.reference import ReferenceEvaluator

from openmxu.runtime import process
from openmxu.runtime.files import read_input
from openmxu_sim.networks.numerics import EscapeError

__all__ = [
    "ENGINE",
    "GraphProto",
    "ModelError",
    "ModelProto",
    "NodeProto",
    "ReferenceEvaluator",
    "Session",
    "TensorProto",
    "TensorShapeProto",
    "TypeProto",
    "ValueInfoProto",
    "attributes_of",
    "constant",
    "first_output",
    "go_on",
    "heard",
    "helper",
    "inferred",
    "inner_graphs",
    "inner_nodes",
    "inputs_of",
    "load",
    "named",
    "numpy_helper",
    "optimised",
    "refusals",
    "without_functions",
]

ENGINE = f"onnxruntime {onnxruntime.__version__}"
"""The engine that computes a model without a unit."""

_MOST_NODES = 1 << 20
"""Most nodes of a model whose functions are replaced by their nodes; large networks have thousands."""

_MOST_BYTES = (1 << 31) - 1
"""Most bytes of a file: protobuf has no larger messages."""

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
            types = [each.type for each in (*self._session.get_inputs(), *self._session.get_outputs())]
            self._foreign = any(name in each for each in types for name in _FOREIGN)

    def run(
        self, inputs: Mapping[str, npt.NDArray[Any]], refusal: str = "model cannot be run by onnxruntime"
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs, by their names."""
        with refusals(refusal):
            outputs = heard(lambda: self._outputs(inputs, getattr(_work, "options", None)))
        return dict(zip(self._names, outputs, strict=True))

    def _outputs(self, inputs: Mapping[str, Any], options: "onnxruntime.RunOptions | None") -> Sequence[Any]:
        if not self._foreign:
            results: Sequence[Any] = self._session.run(self._names, dict(inputs), options)
            return results
        values = {name: _lent(value) for name, value in inputs.items()}
        return [_returned(value) for value in self._session.run_with_ort_values(self._names, values, options)]


_FOREIGN = ("bfloat16", "float8", "float4", "int4", "int2")
"""Types that onnxruntime's Python does not take from numpy, or give to it."""


def _lent(value: Any) -> Any:
    """Return an array, or a sequence of arrays, as a value of onnxruntime."""
    if isinstance(value, list):
        return value
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    if not any(name in TensorProto.DataType.Name(kind).lower() for name in _FOREIGN):
        return onnxruntime.OrtValue.ortvalue_from_numpy(value)
    lent = onnxruntime.OrtValue.ortvalue_from_shape_and_type(value.shape, kind)
    packed = numpy_helper.from_array(value).raw_data
    if len(packed) != lent.tensor_size_in_bytes():
        raise ModelError(f"a tensor of {value.dtype} must have {lent.tensor_size_in_bytes()} bytes, not {len(packed)}")
    ctypes.memmove(lent.data_ptr(), packed, len(packed))
    return lent


def _returned(value: Any) -> Any:
    """Return a value of onnxruntime as an array, or as what its Python makes of it."""
    if not (value.is_tensor() and any(name in value.data_type() for name in _FOREIGN)):
        return value.numpy()
    content = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return numpy_helper.to_array(TensorProto(data_type=value.element_type(), dims=value.shape(), raw_data=content))


def _open(model: ModelProto, **settings: Any) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    for name, value in {"log_severity_level": _QUIET, **settings}.items():
        setattr(options, name, value)
    content = model.SerializeToString()
    return heard(lambda: onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"]))


def load(model: "ModelProto | Path | str | bytes") -> ModelProto:
    """Return the model, read if it is a file or the content of one."""
    if isinstance(model, ModelProto):
        return _plain(model)
    if not isinstance(model, (str, Path, bytes)):
        raise TypeError(f"model must be an ONNX model or its file, not {model!r}")
    what = f"model must be an ONNX file, not {'these bytes' if isinstance(model, bytes) else model}"
    content = model if isinstance(model, bytes) else read_input(Path(model), _MOST_BYTES)
    with refusals(what):
        proto = onnx.load_from_string(content)
        if not isinstance(model, bytes):
            onnx.load_external_data_for_model(proto, str(Path(model).parent))
    if not proto.HasField("graph"):
        raise ModelError(f"{what}: it has no graph")
    return _plain(proto)


_ONNX = "ai.onnx"
"""Another name of the domain that ONNX calls nothing."""


def _plain(model: ModelProto) -> ModelProto:
    """Return the model with one name for ONNX's own domain, and with dense tensors alone."""
    sparse = [each for part in _parts(model) for each in getattr(part, "sparse_initializer", ())]
    named_so = (*(node for part in _parts(model) for node in part.node), *_imports(model))
    if not sparse and not any(each.domain == _ONNX for each in named_so):
        return model
    _bound(sparse)
    copy = ModelProto()
    copy.CopyFrom(model)
    for each in (*(node for part in _parts(copy) for node in part.node), *_imports(copy)):
        each.domain = "" if each.domain == _ONNX else each.domain
    for holder in (copy, *copy.functions):
        versions = {each.version for each in holder.opset_import if not each.domain}
        if len(versions) > 1:
            raise ModelError(f"model must be of one version of ONNX, not of {sorted(versions)}")
    for part in _parts(copy):
        if isinstance(part, GraphProto) and part.sparse_initializer:
            with refusals("model has a sparse tensor that cannot be read"):
                dense = [numpy_helper.from_array(_dense(each), each.values.name) for each in part.sparse_initializer]
            part.initializer.extend(dense)
            del part.sparse_initializer[:]
    return copy


def _imports(model: ModelProto) -> Iterator[OperatorSetIdProto]:
    return (each for holder in (model, *model.functions) for each in holder.opset_import)


def _parts(model: ModelProto) -> "Iterator[GraphProto | FunctionProto]":
    """Yield everything that has nodes: the graph, functions, branches and loops."""
    for part in (model.graph, *model.functions):
        yield part
        yield from inner_graphs(part.node)


def _bound(sparse: Collection[SparseTensorProto]) -> None:
    """Refuse sparse tensors that together are too large as dense ones."""
    size = 0
    for each in sparse:
        with refusals("model has a sparse tensor that cannot be read"):
            width = int(helper.tensor_dtype_to_np_dtype(each.values.data_type).itemsize)
        size += width * math.prod(map(abs, each.dims))
    if size > _MOST_BYTES:
        raise ModelError(f"sparse tensors of a model must have at most {_MOST_BYTES} bytes as dense ones, not {size}")


def _dense(sparse: SparseTensorProto) -> npt.NDArray[Any]:
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    fits = indices.shape in ((values.size,), (values.size, dense.ndim))
    if not fits or (indices < 0).any() or (indices >= (dense.shape if indices.ndim == 2 else dense.size)).any():
        name = sparse.values.name or "a sparse tensor"
        raise ModelError(f"{name} must have a place in {dense.shape} for each of its {values.size} values")
    dense[tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, dense.shape)] = values
    return dense


def optimised(model: ModelProto) -> ModelProto:
    """Return the model as onnxruntime simplifies it for any processor: constants folded, normalisation in weights."""
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with process.workspace() as directory, refusals("model cannot be simplified by onnxruntime"):
        file = str(directory / "model.onnx")
        _open(_constant(model), graph_optimization_level=level, optimized_model_filepath=file)
        return onnx.load(file)


def _constant(model: ModelProto) -> ModelProto:
    """Return the model without inputs that have values of their own: files of IR 3 list all constants as inputs.

    onnxruntime would keep the input of a constant that it merges with an equal one.
    """
    names = {each.name for each in model.graph.initializer}
    if not any(each.name in names for each in model.graph.input):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = max(copy.ir_version, 4)  # the first in which a constant need not be an input
    inputs = [each for each in copy.graph.input if each.name not in names]
    del copy.graph.input[:]
    copy.graph.input.extend(inputs)
    return copy


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
    yield from nodes
    for graph in inner_graphs(nodes):
        yield from graph.node


def inner_graphs(nodes: Collection[NodeProto]) -> Iterator[GraphProto]:
    """Yield the graphs of branches and loops, and those in them."""
    for attribute in (each for node in nodes for each in node.attribute):
        for graph in (attribute.g, *attribute.graphs):
            yield graph
            yield from inner_graphs(graph.node)


def inputs_of(node: NodeProto) -> set[str]:
    """The names that a node reads, in its branches and loops, too, without those that are made there."""
    made = set[str]()
    for graph in inner_graphs([node]):
        made |= {each.name for each in (*graph.input, *graph.initializer)}
        made |= {name for each in graph.node for name in each.output}
    return {name for each in inner_nodes([node]) for name in each.input if name} - made


def inferred(model: ModelProto, *, strict: bool = True) -> ModelProto:
    """Return the model with the types and shapes that ONNX's rules give its tensors.

    What a node that breaks a rule gives is not known, unless ``strict``.

    Raises
    ------
    ModelError
        A node breaks a rule.
    """
    with refusals("model cannot be run"):
        # Other domains have no inference, and strictness takes that for an error. Types are the engines' matter:
        # PyTorch exports convolutions of bf16 in versions that have none.
        strict = strict and not any(node.domain for node in inner_nodes(model.graph.node))
        return onnx.shape_inference.infer_shapes(model, strict_mode=strict)


def first_output(node: NodeProto) -> str:
    """Return the first output that a node has; those before may be left out."""
    return next(filter(None, node.output), "")


def named(node: NodeProto) -> str:
    """Return the operator and the name of a node, for messages."""
    return f"{node.op_type} {node.name or first_output(node)}"


_CONSTANTS = {"value_int": np.int64, "value_float": np.float32, "value_string": object}


def constant(node: NodeProto) -> npt.NDArray[Any] | None:
    """Return the tensor of a ``Constant``; ``None`` of other nodes."""
    if node.op_type != "Constant" or node.domain:
        return None
    if len(node.attribute) != 1:
        raise ModelError(f"{named(node)} must have one attribute, not {len(node.attribute)}")
    [attribute] = node.attribute
    value = _decoded(helper.get_attribute_value(attribute))
    if isinstance(value, SparseTensorProto):
        _bound([value])
        return _dense(value)
    dtype = _CONSTANTS.get(attribute.name.removesuffix("s"))
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else dtype and np.array(value, dtype)


def attributes_of(node: NodeProto, version: int) -> dict[str, Any]:
    """Return the attributes of a node by ONNX's schema, with defaults; ``None`` where there is none.

    Raises
    ------
    ModelError
        There is no such operator, or it has no such attribute.
    """
    try:
        known = get_schema(node.op_type, version, node.domain).attributes
    except SchemaError:
        raise ModelError(f"{named(node)} must be an operator of ONNX {version}") from None
    given = {each.name: each for each in node.attribute}
    if not set(given) <= set(known):
        unknown = ", ".join(sorted(set(given) - set(known)))
        raise ModelError(f"{named(node)} must have attributes among {', '.join(sorted(known))}, not {unknown}")
    found: dict[str, Any] = {}
    for name, schema in known.items():
        attribute = given.get(name, schema.default_value)
        wanted = int(schema.type)
        if not attribute.type and (name not in given):
            found[name] = None
        elif attribute.type != wanted:
            raise ModelError(f"{name} of {named(node)} must be of the type {schema.type.name}, not {attribute.type}")
        else:
            found[name] = _decoded(helper.get_attribute_value(attribute))
    return found


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
