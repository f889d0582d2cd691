"""A model whose products the unit computes."""

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu_sim import golden
from openmxu_sim.golden.parameters import UnitOptions, Unpack, with_options
from openmxu_sim.networks.by_layer import LayerNumerics, Layers
from openmxu_sim.networks.costs import Costs, Ledger
from openmxu_sim.networks.numerics import EscapeError, Multiplier, Numerics, Product, Work
from openmxu_sim.onnx.evaluator import Compute, Graph
from openmxu_sim.onnx.matrix_nodes import PARTLY, computed, is_product, refusal
from openmxu_sim.onnx.nodes import DOMAINS, Other, random_nodes, versions_of
from openmxu_sim.onnx.rules import checked, sizes_of
from openmxu_sim.onnx.runtime import ModelError, ModelProto, NodeProto, go_on, heard, helper, load, named, refusals
from openmxu_sim.operands.npy import of_bytes


class Network:
    """A model whose products the unit computes.

    Parameters
    ----------
    model
        An ONNX model, its file, or the content of one.
    columns, stages
        Columns of the unit's array, and stages of its elements, for cycles; no bit depends on them.
    layers
        Other formats, or parameters, by patterns of layers' names: those of modules of PyTorch where its exporter has
        left them, else of nodes; see :class:`openmxu_sim.networks.by_layer.Layers`.
    strict
        Whether another operator that multiplies matrices is an error.
    allow
        Operator types to permit anyway.
    threads
        Number of threads; ``None``: one per processor.
    errors
        Whether to measure the error of each product against binary64, see :meth:`errors`.
    numerics
        The parameters of the table in :doc:`/explanation/numerics`, ``gradient`` apart.

    Attributes
    ----------
    config
        The unit's parameters.
    random
        Nodes that draw random numbers.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain, or ``model`` is no ONNX model.
    EscapeError
        A product of the model would be computed elsewhere.
    """

    @with_options(UnitOptions)
    def __init__(
        self,
        model: "ModelProto | Path | str | bytes",
        *,
        columns: int = 128,
        stages: int = 1,
        layers: LayerNumerics | None = None,
        strict: bool = True,
        allow: Collection[str] = (),
        threads: int | None = None,
        errors: bool = False,
        **numerics: Unpack[UnitOptions],
    ) -> None:
        self.numerics = Numerics(**numerics).checked()
        self.layers, self._errors = Layers(self.numerics, layers), errors
        self.config = self.numerics.unit(columns, stages)
        self.threads = None if threads is None else golden.check_count(threads, "threads")
        if isinstance(allow, str) or not all(isinstance(name, str) for name in allow):
            raise ValueError(f"allow must be types of operators such as 'Einsum', not {allow!r}")
        self._strict, self._allow = strict, frozenset(allow)
        self.model = checked(load(model))
        self._ledger = Ledger(self.config, self.numerics)
        self._versions = versions_of(self.model)
        with refusals("model cannot be run"):
            self.random = random_nodes(self.model)
            self._graph = Graph(self.model.graph, dict(self._versions[0])[""], self._compute)

    def run(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs of the model, by their names.

        Raises
        ------
        ValueError
            The inputs are not those of the model, or it cannot be computed.
        EscapeError
            A product has tensors that the unit does not take.
        """
        arrays = self.check_inputs(inputs)
        with refusals("model cannot be run"):
            outputs = heard(lambda: self._graph.run(arrays))
        self.layers.warn_of_unmatched()
        return dict(zip((each.name for each in self._graph.outputs), outputs, strict=True))

    def check_inputs(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return the inputs, checked: those of bf16 and fp8 may be bytes, as numpy's files have them.

        Raises
        ------
        ValueError
            Names, types or shapes differ.
        """
        wanted = self._wanted()
        optional = {entry.name for entry in self.model.graph.initializer}
        if not set(wanted) - optional <= set(inputs) <= set(wanted):
            raise ValueError(f"inputs must be {', '.join(sorted(wanted))}, not {', '.join(sorted(inputs)) or 'none'}")
        arrays = {}
        for name in inputs:
            tensor = wanted[name]
            dtype = _dtype(name, tensor)
            arrays[name] = array = of_bytes(np.asarray(inputs[name]), dtype)
            sizes = sizes_of(tensor.shape) if tensor.HasField("shape") else None
            fits = sizes is None or (
                len(sizes) == array.ndim
                and all(size in (None, own) for size, own in zip(sizes, array.shape, strict=True))
            )
            if array.dtype != dtype or not fits:
                shape = "" if sizes is None else f" ({', '.join(map(str, sizes))})".replace("None", "any")
                raise ValueError(f"input {name} must be {dtype}{shape}, not {array.dtype} {array.shape}")
        return arrays

    def zeros(self) -> dict[str, npt.NDArray[Any]]:
        """Return inputs of zeros, of size 1 where the model does not specify one."""
        defaults = {initializer.name for initializer in self.model.graph.initializer}
        return {
            name: np.zeros([1 if size is None else size for size in sizes_of(tensor.shape)], _dtype(name, tensor))
            for name, tensor in self._wanted().items()
            if name not in defaults
        }

    def _wanted(self) -> dict[str, Any]:
        """Return type and shape of each input."""
        types = {value.name: value.type.tensor_type for value in self.model.graph.input}
        return {name: types[name] for name in self._graph.inputs}

    @property
    def work(self) -> Counter[Work]:
        """Number of times that the unit was asked for each kind of product; layers have the names of nodes."""
        return self._ledger.work

    def report(self) -> Costs:
        """Return the costs of all products so far on the unit."""
        return self._ledger.costs()

    def errors(self) -> list[dict[str, Any]]:
        """Return the errors of products, one row for each kind."""
        return self._ledger.errors_by_step()

    def _compute(self, node: NodeProto) -> Compute:
        """Return what computes a node."""
        if node.domain not in DOMAINS:
            raise ModelError(f"{named(node)} must be an operator of ONNX, not of {node.domain}")
        version, allowed = dict(self._versions[0]).get(node.domain, 1), node.op_type in self._allow
        reason = refusal(node, version)
        if reason and self._strict and not allowed:
            raise EscapeError(
                f"{named(node)} does not multiply on the unit: {reason}; write it with MatMul, Gemm or Conv, or let it "
                f"compute by itself: allow {node.op_type}"
            )
        if is_product(node) and not reason and not (allowed and node.op_type in PARTLY):
            return computed(node, version, self._multiplier)
        return Other(node, self._versions)

    def _multiplier(self, operator: str, layer: str) -> Multiplier:
        def seen(product: Product) -> None:
            go_on()
            work = Work(operator, product.products, product.m, product.k, product.n, layer)
            self._ledger.note(work, product, errors=self._errors)

        return Multiplier(self.layers.numerics(layer), self.threads, seen, measures=self._errors)


def _dtype(name: str, tensor: Any) -> np.dtype[Any]:
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    except KeyError:
        raise ModelError(f"input {name} of a model must be a tensor of numbers") from None
