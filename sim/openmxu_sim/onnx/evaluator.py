"""Graphs of ONNX, node by node: ``If``, ``Loop``, ``Scan`` and ``SequenceMap`` here, others by the caller.

::

    scope of the model    x, constants, results so far      a graph sees the names of those around it, and its own first
      └─ body of a loop   i, state, its constants, results
           └─ branch      its constants, results
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openmxu_sim.onnx.runtime import (
    GraphProto,
    ModelError,
    NodeProto,
    ValueInfoProto,
    attributes_of,
    constant,
    go_on,
    helper,
    named,
    numpy_helper,
)

Value = Any
"""A tensor as an array, a sequence of them as a list, or ``None``: left out."""

Compute = Callable[[Sequence[Value]], Sequence[Value]]
"""Computes the outputs of a node from its inputs."""

MOST_ITERATIONS = 1 << 18
"""Most iterations of all loops, scans and maps of a run: exporters write 2^63 - 1 for no bound."""

MOST_BYTES = 1 << 32
"""Most bytes that loops stack in a run, and of a state."""


@dataclass
class _Spent:
    """Iterations that the loops of a run have taken so far."""

    iterations: int = 0
    size: int = 0

    def iterate(self, name: str, states: Sequence[Value], results: Sequence[Value], count: int = 1) -> None:
        self.iterations += count
        self.size += sum(map(_size, results))
        if self.iterations > MOST_ITERATIONS or max(self.size, *map(_size, states), 0) > MOST_BYTES:
            raise ModelError(
                f"{name} must end within {MOST_ITERATIONS} iterations, and have and stack at most {MOST_BYTES} bytes; "
                "iterations and bytes of all loops count"
            )


@dataclass(frozen=True)
class Scope:
    """Values by their names: of a graph, and of those around it."""

    values: dict[str, Value]
    outer: "Scope | None" = None
    spent: _Spent = field(default_factory=_Spent)

    def inner(self, values: dict[str, Value]) -> "Scope":
        """Return the scope of a graph in this one."""
        return Scope(values, self, self.spent)

    def __getitem__(self, name: str) -> Value:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise ModelError(f"{name} must be a tensor that is computed before it is read")


class Graph:
    """A graph whose nodes are computed in their order; ``compute`` is asked once for each node without graphs."""

    def __init__(
        self, graph: GraphProto, version: int, compute: Callable[[NodeProto], Compute], *outer: set[str]
    ) -> None:
        self.inputs = [each.name for each in graph.input]
        self.ranks = [len(each.type.tensor_type.shape.dim) for each in graph.input]
        self.outputs = list(graph.output)
        self._constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        self._steps = []
        known = {*self.inputs, *self._constants}
        for node in graph.node:
            self._steps.append((node, _step(node, version, compute, known, *outer)))
            for name in filter(None, node.output):
                if any(name in names for names in (known, *outer)):
                    raise ModelError(f"tensors must have different names, also in graphs around them, not {name} twice")
                known.add(name)

    def run(self, values: Mapping[str, Value], outer: Scope | None = None) -> list[Value]:
        """Return the outputs for the inputs."""
        own = {**self._constants, **values}
        scope = Scope(own) if outer is None else outer.inner(own)
        for node, step in self._steps:
            go_on()
            inputs = [scope[name] if name else None for name in node.input]
            results = step.run(inputs, scope) if isinstance(step, _Control) else step(inputs)
            own.update(zip(node.output, results, strict=False))
        return [scope[each.name] for each in self.outputs]

    def call(self, inputs: Sequence[Value], outer: Scope) -> list[Value]:
        """Return the outputs for the inputs in their order."""
        return self.run(dict(zip(self.inputs, inputs, strict=True)), outer)


def _step(
    node: NodeProto, version: int, compute: Callable[[NodeProto], Compute], *outer: set[str]
) -> "_Control | Compute":
    kind = _CONTROLS.get(node.op_type) if node.domain == "" else None
    if kind is None:
        value = constant(node)
        return compute(node) if value is None else lambda _: [value]
    if (node.op_type, version) == ("Scan", 8):
        raise ModelError(f"{named(node)} must be of operator set 9 or later, not 8")
    graphs = {each.name: Graph(each.g, version, compute, *outer) for each in node.attribute if each.HasField("g")}
    for name in ("then_branch", "else_branch") if kind is _If else ("body",):
        if name not in graphs:
            raise ModelError(f"{named(node)} must have a {name}")
    return kind(node, attributes_of(node, version), graphs)


@dataclass(frozen=True)
class _Control:
    node: NodeProto
    attributes: Mapping[str, Any]
    graphs: Mapping[str, Graph]

    def __post_init__(self) -> None:
        """Refuse a node that cannot be run."""

    def run(self, inputs: Sequence[Value], scope: Scope) -> Sequence[Value]:
        raise NotImplementedError

    def _body(self, inputs: int, outputs: int) -> Graph:
        """The body, which must have so many inputs, and at least so many outputs."""
        body = self.graphs["body"]
        if len(body.inputs) != inputs or len(body.outputs) < outputs:
            raise ModelError(
                f"body of {named(self.node)} must have {inputs} inputs and at least {outputs} outputs, "
                f"not {len(body.inputs)} and {len(body.outputs)}"
            )
        return body


class _If(_Control):
    def run(self, inputs: Sequence[Value], scope: Scope) -> Sequence[Value]:
        branch = self.graphs["then_branch" if _holds(inputs[0], self.node) else "else_branch"]
        if len(branch.outputs) != len(self.node.output):
            raise ModelError(f"branches of {named(self.node)} must have {len(self.node.output)} outputs each")
        return branch.run({}, scope)


class _Loop(_Control):
    def run(self, inputs: Sequence[Value], scope: Scope) -> Sequence[Value]:
        """Iterate while the bound and the condition permit; what is left out permits.

        Without a condition ONNX ignores the body's own; here it counts in any case, as in onnxruntime.
        """
        most, condition, *states = inputs
        body, count = self._body(len(inputs), len(states) + 1), 0
        going = condition is None or _holds(condition, self.node)
        rows: list[Sequence[Value]] = []
        while going and (most is None or count < int(np.asarray(most).item())):
            place, given = (
                np.full([1] * bool(rank), value)
                for rank, value in zip(body.ranks, (np.int64(count), going), strict=False)
            )
            condition, *results = body.call([place, given, *states], scope)
            going, count = _holds(condition, self.node), count + 1
            states, row = results[: len(states)], results[len(states) :]
            scope.spent.iterate(named(self.node), states, row)
            rows.append(row)
        stacked = body.outputs[1 + len(states) :]
        return [*states, *(_stacked([row[at] for row in rows], each) for at, each in enumerate(stacked))]


class _Scan(_Control):
    def __post_init__(self) -> None:
        count, inputs = self.attributes["num_scan_inputs"] or 0, len(self.node.input)
        if not 0 < count <= inputs:
            raise ModelError(f"{named(self.node)} must have num_scan_inputs from 1 to {inputs}, not {count}")
        outputs = len(self._body(inputs, inputs - count).outputs) - inputs + count
        for side, size in (("scan_input", count), ("scan_output", outputs)):
            axes, directions = self._ways(side, size)
            if not len(axes) == len(directions) == size or not {*directions} <= {0, 1}:
                raise ModelError(
                    f"{named(self.node)} must have {size} {side}_axes and {side}_directions of 0 or 1, "
                    f"not {axes} and {directions}"
                )

    def run(self, inputs: Sequence[Value], scope: Scope) -> Sequence[Value]:
        """Go along an axis of each input that is scanned, either way; stack results along one of each output."""
        count = self.attributes["num_scan_inputs"]
        states, scanned = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
        body = self._body(len(inputs), len(states))
        stacked = body.outputs[len(states) :]
        slices = [
            np.flip(np.moveaxis(each, axis, 0), 0) if backward else np.moveaxis(each, axis, 0)
            for each, axis, backward in zip(scanned, *self._ways("scan_input", count), strict=True)
        ]
        if len({len(each) for each in slices}) != 1:
            raise ModelError(f"{named(self.node)} must scan inputs of one length, not {[len(each) for each in slices]}")
        scope.spent.iterate(named(self.node), (), (), len(slices[0]))
        rows = []
        for parts in zip(*slices, strict=True):
            results = body.call([*states, *map(np.asarray, parts)], scope)
            states, row = results[: len(states)], results[len(states) :]
            scope.spent.iterate(named(self.node), states, row, count=0)
            rows.append(row)
        ways = zip(stacked, *self._ways("scan_output", len(stacked)), strict=True)
        columns = ([row[at] for row in rows] for at in range(len(stacked)))
        return [
            *states,
            *(
                _stacked(column[::-1] if backward else column, each, axis)
                for column, (each, axis, backward) in zip(columns, ways, strict=True)
            ),
        ]

    def _ways(self, side: str, count: int) -> tuple[Sequence[int], Sequence[int]]:
        """Axes and directions of the inputs or outputs that are scanned."""
        axes, directions = (self.attributes[f"{side}_{name}"] or [0] * count for name in ("axes", "directions"))
        return axes, directions


class _SequenceMap(_Control):
    def run(self, inputs: Sequence[Value], scope: Scope) -> Sequence[Value]:
        """Compute the body for each member of the first sequence, and of others; tensors stay."""
        body = self._body(len(inputs), len(self.node.output))
        lengths = {len(each) for each in inputs if isinstance(each, list)}
        if not isinstance(inputs[0], list) or len(lengths) > 1:
            raise ModelError(f"{named(self.node)} must have sequences of one length, not of {sorted(lengths)}")
        scope.spent.iterate(named(self.node), (), (), len(inputs[0]))
        results = []
        for at in range(len(inputs[0])):
            row = body.call([each[at] if isinstance(each, list) else each for each in inputs], scope)
            scope.spent.iterate(named(self.node), (), row, count=0)
            results.append(row)
        return [[row[at] for row in results] for at in range(len(body.outputs))]


_CONTROLS: Mapping[str, type[_Control]] = {"If": _If, "Loop": _Loop, "Scan": _Scan, "SequenceMap": _SequenceMap}


def _size(value: Value) -> int:
    return sum(map(_size, value)) if isinstance(value, list) else getattr(value, "nbytes", 0)


def _holds(condition: Value, node: NodeProto) -> bool:
    if not isinstance(condition, np.ndarray | np.generic) or condition.size != 1:
        raise ModelError(f"condition of {named(node)} must be one number, not {np.shape(condition)}")
    return bool(condition.item())


def _stacked(rows: Sequence[Value], output: ValueInfoProto, axis: int = 0) -> Value:
    """Return tensors along a new axis; without any, sizes are those of the body's output, and 0 where it has none."""
    if rows:
        return np.stack(rows, axis)
    tensor = output.type.tensor_type
    sizes = [each.dim_value for each in tensor.shape.dim]
    sizes.insert(axis if axis >= 0 else len(sizes) + 1 + axis, 0)
    return np.zeros(sizes, helper.tensor_dtype_to_np_dtype(tensor.elem_type))
