"""A model whose products the unit computes."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator

from openmxu.config import MxuConfig
from openmxu.formats import FP32, FloatFormat
from openmxu_sim import golden
from openmxu_sim.numerics import EscapeError, Multiplier, Numerics, Work
from openmxu_sim.onnx.operators import REFUSED, operators

__all__ = ["Network"]


class Network:
    """A model whose products the unit computes.

    Parameters
    ----------
    model
        An ONNX model, or its file.
    rows, columns, stages, subnormals, operand, accumulate, precision
        As of :func:`openmxu_sim.simulate`. Neither ``columns`` nor ``stages`` change any bit.
    strict
        Whether another operator that multiplies matrices is an error.
    allow
        Types of such operators that are none all the same.
    threads
        How many to use; ``None``: one per processor.

    Attributes
    ----------
    config
        The unit's parameters.
    work
        How many times it was asked for which products; layers are named as the model names its nodes.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain, or the model is none.
    EscapeError
        A product of the model would be computed elsewhere.
    """

    def __init__(
        self,
        model: "onnx.ModelProto | Path | str",
        *,
        rows: int = 128,
        columns: int = 128,
        stages: int = 1,
        subnormals: str = "flush",
        operand: str = "bf16",
        accumulate: str = "fp32",
        precision: str = "default",
        strict: bool = True,
        allow: Collection[str] = (),
        threads: int | None = None,
    ) -> None:
        self.numerics = Numerics(operand, accumulate, precision, subnormals, rows).checked()
        self.config = MxuConfig(
            rows=rows,
            columns=columns,
            stages=stages,
            subnormals=subnormals,
            operand=FloatFormat.parse(operand, "operand"),
            source=FP32,
        )
        self.threads = None if threads is None else golden.check_count(threads, "threads")
        if isinstance(allow, str) or not all(isinstance(name, str) for name in allow):
            raise ValueError(f"allow must be types of operators such as 'Einsum', not {allow!r}")
        self.model = _load(model)
        if strict:
            _check(self.model, frozenset(allow))
        self.work: Counter[Work] = Counter()
        self._evaluator = ReferenceEvaluator(self.model, new_ops=operators(self._multiplier))

    def run(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """The outputs of the model, by their names.

        Raises
        ------
        ValueError
            The inputs are not those of the model.
        """
        wanted = set(self._evaluator.input_names)
        if set(inputs) != wanted:
            raise ValueError(f"inputs must be {', '.join(sorted(wanted))}, not {', '.join(sorted(inputs)) or 'none'}")
        found = self._evaluator.run(None, {name: np.asarray(value) for name, value in inputs.items()})
        return dict(zip(self._evaluator.output_names, found, strict=True))

    def _multiplier(self, operator: str, layer: str) -> Multiplier:
        def seen(products: int, m: int, k: int, n: int) -> None:
            self.work[Work(operator, products, m, k, n, layer)] += 1

        return Multiplier(self.numerics, self.threads, seen)


def _load(model: "onnx.ModelProto | Path | str") -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        return model
    if not isinstance(model, (str, Path)):
        raise TypeError(f"model must be an ONNX model or its file, not {model!r}")
    try:
        return onnx.load(model)
    except FileNotFoundError:
        raise
    except Exception as error:  # protobuf's own, whatever their kind is
        raise ValueError(f"model must be an ONNX file, not {model}: {error}") from error


def _check(model: onnx.ModelProto, allow: frozenset[str]) -> None:
    for node in _nodes([*model.graph.node, *(node for function in model.functions for node in function.node)]):
        if node.domain in ("", "ai.onnx") and node.op_type in REFUSED - allow:
            raise EscapeError(
                f"{node.op_type} does not multiply on the unit; write it with MatMul, Gemm or Conv, "
                f"or let it compute by itself: allow {node.op_type}"
            )


def _nodes(nodes: Collection[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """All of them, and those of their branches and loops."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _nodes(graph.node)
