"""One model on several units: its outputs, their differences from fp32, and its costs."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu.pages.tables import escaped, table
from openmxu_sim.networks import errors_report
from openmxu_sim.networks.costs import Costs, three_digits
from openmxu_sim.onnx.evaluator import Graph
from openmxu_sim.onnx.network import Network
from openmxu_sim.onnx.nodes import Other, versions_of
from openmxu_sim.onnx.rules import checked
from openmxu_sim.onnx.runtime import ENGINE, ModelError, ModelProto, Session, TensorProto, heard, load

_Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Difference:
    """An output on the unit compared with that of onnxruntime in fp32."""

    output: str
    """Name of the output."""
    largest: float
    """The largest difference of two numbers; infinite where only one of them is finite."""
    agreement: float | None
    """Share of rows whose largest number is at the same place; ``None`` for outputs without rows."""
    rows: int


@dataclass(frozen=True)
class Inference:
    """A run of a model on one unit."""

    operand: str
    """Format of the operands."""
    outputs: _Arrays
    """Outputs of the model, by their names."""
    differences: tuple[Difference, ...]
    """Differences of the outputs from fp32, one for each."""
    costs: Costs
    """Costs of the products."""
    element: float | None = None
    """Area of a processing element in GE, if it was measured."""
    errors: tuple[Mapping[str, Any], ...] = ()
    """Errors of products, if they were measured."""
    random: tuple[str, ...] = ()
    """Nodes that draw random numbers: no two runs agree."""


def infer(
    model: Any,
    inputs: Mapping[str, npt.NDArray[Any]],
    operands: Sequence[str],
    *,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> list[Inference]:
    """Run a model on a unit for each operand format."""
    loaded = load(model)
    networks = [Network(loaded, operand=operand, **options) for operand in operands]
    reference, expected = _reference(loaded), _Arrays()
    results = []
    for number, (operand, network) in enumerate(zip(operands, networks, strict=True)):
        arrays = network.check_inputs(inputs)
        outputs = _arrays(network.run(arrays))  # first: its loops are bounded, those of onnxruntime are not
        expected = expected or _arrays(reference(arrays))
        names = {**expected, **outputs}
        differences = tuple(_difference(name, outputs.get(name), expected.get(name)) for name in names)
        found = Inference(operand, outputs, differences, network.report(), errors=tuple(network.errors()))
        results.append(replace(found, random=tuple(network.random)))
        if progress is not None:
            progress(number + 1, len(networks))
    return results


def _reference(model: ModelProto) -> Callable[[_Arrays], Mapping[str, Any]]:
    """Return onnxruntime's run of a model: node by node where it lacks some in bf16, which are then in fp32."""
    try:
        return Session(model).run
    except ModelError:
        known, versions = checked(model), versions_of(model)
        values = (*known.graph.input, *known.graph.value_info)
        if not any(each.type.tensor_type.elem_type == TensorProto.BFLOAT16 for each in values):
            raise
        graph = Graph(known.graph, dict(versions[0])[""], lambda node: Other(node, versions))
        names = [each.name for each in graph.outputs]
        return lambda arrays: dict(zip(names, heard(lambda: graph.run(arrays)), strict=True))


def _arrays(outputs: Mapping[str, Any]) -> _Arrays:
    """Return outputs as arrays: each member of a sequence by itself, texts in numpy's type for them."""
    arrays = _Arrays()
    for name, output in outputs.items():
        members = (
            {f"{name}[{at}]": each for at, each in enumerate(output)} if isinstance(output, list) else {name: output}
        )
        for member, value in members.items():
            if not isinstance(value, np.ndarray | np.generic):
                raise ModelError(
                    f"output {name} must be a tensor, or a sequence of tensors, not {type(value).__name__}"
                )
            if member in arrays:
                raise ModelError(f"outputs must have different names, and members of sequences, not {member} twice")
            arrays[member] = np.asarray(value, str if value.dtype == object else value.dtype)
    return arrays


def _difference(name: str, output: Any, expected: Any) -> Difference:
    if output is None or expected is None or output.shape != expected.shape or expected.dtype.kind == "U":
        return Difference(name, 0.0 if np.array_equal(output, expected) else math.inf, None, 0)
    one, other = (np.asarray(array, np.float64) for array in (output, expected))
    with np.errstate(invalid="ignore"):
        apart = np.asarray(np.abs(one - other))
    apart[np.isnan(apart)] = np.inf
    apart[(one == other) | (np.isnan(one) & np.isnan(other))] = 0
    rows = int(np.prod(one.shape[:-1])) if one.ndim and one.shape[-1] > 1 else 0
    agreement = float((one.argmax(-1) == other.argmax(-1)).mean()) if rows else None
    return Difference(name, float(apart.max(initial=0.0)), agreement, rows)


def to_json(results: Sequence[Inference]) -> str:
    """Return the runs without their outputs as JSON."""
    plain = [
        {
            "operand": result.operand,
            "against": ENGINE,
            "differences": [vars(difference) for difference in result.differences],
            **({} if result.element is None else {"element_ge": result.element}),
            **({"random": result.random} if result.random else {}),
            **result.costs.as_dict(),
        }
        for result in results
    ]
    return json.dumps(plain, indent=1, allow_nan=True) + "\n"


def to_markdown(name: str, results: Sequence[Inference]) -> str:
    """Return a table of all units, then one of layers for each."""
    measured = any(result.element is not None for result in results)
    metered = any(result.costs.energy is not None for result in results)
    random = ", ".join(dict.fromkeys(escaped(name) for result in results for name in result.random))
    heads = ["operands", "output", "largest difference", "rows", "same largest", "cycles", "array in use"]
    heads += ["element, GE"] * measured + ["energy, mJ"] * metered
    rows = []
    for result in results:
        for difference in result.differences:
            agreement = "" if difference.agreement is None else f"{difference.agreement:.4f}"
            cells = [result.operand, difference.output, f"{difference.largest:.3g}", str(difference.rows or "")]
            cells += [agreement, f"{result.costs.cycles:,}", f"{result.costs.utilisation:.1%}"]
            cells += [] if result.element is None else [f"{result.element:,.0f}"]
            cells += [] if result.costs.millijoules is None else [three_digits(result.costs.millijoules)]
            rows.append(cells)
    lines = [
        f"# {escaped(name)} on matrix units",
        "",
        f"Outputs against those of {ENGINE}; cycles by the formula."
        + " Areas of one of the array's elements, with its registers, by Yosys on generic gates." * measured
        + " Energies derived from those of measured parts, without memories, wires and the clock's tree." * metered
        + f" The model draws random numbers ({random}): differences are theirs, too." * bool(random),
        "",
        table(heads, rows, words=2),
    ]
    if any(result.errors for result in results):
        lines += ["", errors_report.to_markdown({result.operand: result.errors for result in results}).rstrip()]
    for result in results:
        lines += ["", f"## {result.operand}", "", result.costs.to_markdown()]
    return "\n".join(lines) + "\n"
