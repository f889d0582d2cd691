"""ONNX's recurrent operators: LSTM, GRU and RNN.

::

    x (times, batch, inputs) ── W ──> one product for all times
                                        │
    state h (batch, hidden) ─── R ──> + ── + biases ──> gates ──> the next state
                                a product at each time

Gates are sums in fp32, (x W + h R) + (Wb + Rb) in this order; onnxruntime computes their functions. A state goes back
into the array as it is, in fp32; outputs are rounded to the type of the inputs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openmxu_sim.networks.numerics import Multiplier
from openmxu_sim.onnx.nodes import function
from openmxu_sim.operands.aliases import Floats

_Function = Callable[[Floats], Floats]

_OPERATORS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus"), ()),
    **dict.fromkeys(("LeakyRelu", "ThresholdedRelu", "Elu"), ("alpha",)),
    "HardSigmoid": ("alpha", "beta"),
}
"""Operators that may be the function of a gate, and their parameters."""


@dataclass(frozen=True)
class _Weights:
    """Weights of one direction beside those of the inputs; in each array, one gate comes after the other."""

    multiplier: Multiplier
    state: Floats
    inputs_bias: Floats
    state_bias: Floats
    peepholes: Floats
    attributes: Mapping[str, Any]

    def product(self, state: Floats, gates: slice = slice(None)) -> Floats:
        """Multiply (batch, hidden) states by the weights of these gates."""
        return self.multiplier.stacks(state[None], self.state[gates].T[None])[0]

    @property
    def bias(self) -> Floats:
        """Sum of both biases."""
        return self.inputs_bias + self.state_bias


_Step = Callable[[_Weights, Sequence[_Function], Floats, Sequence[Floats]], Sequence[Floats]]
"""Computes the states at the next time from the inputs' part of the gates and the states; the first is the output."""


def _lstm(weights: _Weights, functions: Sequence[_Function], x: Floats, states: Sequence[Floats]) -> Sequence[Floats]:
    f, g, h = functions
    hidden, cell = states
    into, out, forget, new = np.split(x + weights.product(hidden) + weights.bias, 4, axis=1)
    into_hole, out_hole, forget_hole = np.split(weights.peepholes, 3)
    into = f(into + into_hole * cell)
    forget = 1 - into if weights.attributes["input_forget"] else f(forget + forget_hole * cell)
    cell = forget * cell + into * g(new)
    return f(out + out_hole * cell) * h(cell), cell


def _gru(weights: _Weights, functions: Sequence[_Function], x: Floats, states: Sequence[Floats]) -> Sequence[Floats]:
    f, g = functions
    [hidden] = states
    size = hidden.shape[1]
    both, last = slice(2 * size), slice(2 * size, None)
    linear = weights.attributes.get("linear_before_reset")
    # The third gate's product needs no reset then, so all are one.
    product = weights.product(hidden, slice(None) if linear else both)
    update, reset = np.split(f(x[:, both] + product[:, both] + weights.bias[both]), 2, axis=1)
    if linear:
        new = x[:, last] + reset * (product[:, last] + weights.state_bias[last]) + weights.inputs_bias[last]
    else:
        new = x[:, last] + weights.product(reset * hidden, last) + weights.bias[last]
    return [(1 - update) * g(new) + update * hidden]


def _rnn(weights: _Weights, functions: Sequence[_Function], x: Floats, states: Sequence[Floats]) -> Sequence[Floats]:
    return [functions[0](x + weights.product(states[0]) + weights.bias)]


class Cell(NamedTuple):
    """A recurrent operator: its numbers of gates and states, its functions unless others are named, and its step."""

    gates: int
    states: int
    functions: tuple[str, ...]
    step: _Step


CELLS: Mapping[str, Cell] = {
    "LSTM": Cell(4, 2, ("Sigmoid", "Tanh", "Tanh"), _lstm),
    "GRU": Cell(3, 1, ("Sigmoid", "Tanh"), _gru),
    "RNN": Cell(1, 1, ("Tanh",), _rnn),
}
"""Recurrent operators by their types."""


@np.errstate(over="ignore", invalid="ignore")  # infinities are what they are
def recur(
    cell: Cell,
    multiplier: Multiplier,
    operands: Sequence[Floats],
    rest: Sequence[npt.NDArray[Any] | None],
    attributes: Mapping[str, Any],
) -> list[Floats]:
    """Return all outputs of an operator: those at all times, and the last states."""
    x, w, r = operands
    optional: list[Any] = [*rest, *[None] * (5 - len(rest))]
    bias, lengths, *others = optional
    batches_first = bool(attributes.get("layout"))
    states = [value.swapaxes(0, 1) if batches_first and value is not None else value for value in others[: cell.states]]
    x = x.swapaxes(0, 1) if batches_first else x
    directions, _, hidden = r.shape
    if directions != 1 + (attributes["direction"] == "bidirectional"):
        raise ValueError(f"direction must fit weights of {directions} directions, not be {attributes['direction']!r}")
    biases = _or_zeros(bias, directions, 2, cell.gates * hidden)
    holes = _or_zeros(others[-1], directions, 3 * hidden)
    first = [_or_zeros(value, directions, x.shape[1], hidden) for value in states]
    ends = np.full(x.shape[1], len(x)) if lengths is None else np.asarray(lengths)
    if min(ends, default=0) < 0 or max(ends, default=0) > len(x):
        raise ValueError(f"sequence_lens must be from 0 to {len(x)}, not {[*map(int, ends)]}")
    functions = _functions(cell.functions, directions, attributes)
    walks = []
    for way in range(directions):
        weights = _Weights(multiplier, r[way], biases[way, 0], biases[way, 1], holes[way], attributes)
        order = _order(len(x), ends, backwards=way == 1 or attributes["direction"] == "reverse")
        times, batch, inputs = x.shape
        gates = multiplier.stacks(x[order].reshape(1, times * batch, inputs), w[way].T[None])
        step = partial(cell.step, weights, functions[way])
        walks.append(
            _walk(step, gates.reshape(times, batch, cell.gates * hidden), [value[way] for value in first], ends, order)
        )
    outputs = np.stack([value[0] for value in walks], axis=1)
    last = [np.stack([value[1 + number] for value in walks]) for number in range(cell.states)]
    if batches_first:
        return [outputs.transpose(2, 0, 1, 3), *(value.swapaxes(0, 1) for value in last)]
    return [outputs, *last]


def _walk(
    step: Callable[[Floats, Sequence[Floats]], Sequence[Floats]],
    gates: Floats,
    states: Sequence[Floats],
    ends: npt.NDArray[Any],
    order: tuple[Any, Any],
) -> list[Floats]:
    """Return one direction's outputs (times, batch, hidden) and last states; a sequence stops at its end."""
    outputs = np.zeros((*gates.shape[:2], states[0].shape[1]), np.float32)
    for time, gate in enumerate(gates):
        going = (time < ends)[:, None]
        results = step(gate, states)
        states = [np.where(going, new, old) for new, old in zip(results, states, strict=True)]
        outputs[order[0][time], order[1]] = np.where(going, results[0], 0)
    return [outputs, *states]


def _or_zeros(array: npt.NDArray[Any] | None, *shape: int) -> Floats:
    return np.zeros(shape, np.float32) if array is None else np.asarray(array, np.float32).reshape(shape)


def _order(times: int, ends: npt.NDArray[Any], *, backwards: bool) -> tuple[Any, Any]:
    """Return which time of which sequence comes when: an index of (times, batch). Times past an end stay past it."""
    time = np.arange(times)[:, None]
    return np.where((time < ends) & backwards, ends - 1 - time, time), np.arange(len(ends))


def _functions(
    defaults: Sequence[str], directions: int, attributes: Mapping[str, Any]
) -> Sequence[Sequence[_Function]]:
    """Return the functions of the gates for each direction. Each function takes its parameters from lists, in order."""
    wanted = len(defaults) * directions
    names = (attributes["activations"] or [*defaults] * directions)[:wanted]  # RNN has two by default, in any case
    lists = {name: iter(attributes[f"activation_{name}"] or ()) for name in ("alpha", "beta")}
    known = {operator.lower(): operator for operator in _OPERATORS}
    if len(names) < wanted or not {name.lower() for name in names} <= set(known):
        raise ValueError(f"activations must be {len(defaults)} a direction of {', '.join(_OPERATORS)}, not {names}")
    functions = [
        # The third function's argument is LSTM's cell, which onnxruntime does not clip.
        _clipped(known[name.lower()], attributes["clip"] if index % len(defaults) < 2 else None, lists)
        for index, name in enumerate(names)
    ]
    return [functions[: len(defaults)], functions[len(defaults) :]]


def _clipped(operator: str, bound: float | None, lists: Mapping[str, Iterator[float]]) -> _Function:
    """Return an operator whose argument is clipped to a bound, if there is one."""
    taken = ((name, next(lists[name], None)) for name in _OPERATORS[operator])
    compute = function(operator, **{name: value for name, value in taken if value is not None})
    return compute if not bound else lambda x: compute(np.clip(x, -bound, bound))
