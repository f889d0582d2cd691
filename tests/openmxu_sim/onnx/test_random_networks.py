"""Small networks of random nodes, in parts on random accelerators: the numbers of onnxruntime, within bf16's error.

Each node is run by onnxruntime as it is drawn, which says whether it is one, and what shape its result has.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="ONNX is not installed: make setup-models")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: make setup-models")

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu_sim.accelerator.players import Definition, Player, Simulation, run_network
from openmxu_sim.commands.run_accelerator import _opened, compile_parts, fitted
from openmxu_sim.onnx.runtime import ModelError, ModelProto, Session, helper, numpy_helper  # need ONNX

from ...conftest import needs_compiler, slow, thorough

_FLOAT = 1
_MOST = 3000  # numbers of a result
_HOST = ("Sin", "Sigmoid", "LeakyRelu", "Softmax", "HardSwish")
_SAME = ("Relu", "Relu", "Identity", *_HOST)


class _Drawn:
    """A network that grows node by node; ``values`` are those of all its tensors."""

    def __init__(self, seed: int) -> None:
        self.rng, self._names = np.random.default_rng(seed), map("t{}".format, count())
        self._nodes, self._constants = list[Any](), list[Any]()
        images = self._number(1, 3)
        self.inputs = {}
        for name in "xz"[: self._number(1, 2)]:
            axes = [(1, 9), (1, 13), (1, 13)][: int(self.rng.choice([1, 2, 3, 3, 3, 3]))]
            self.inputs[name] = self._weights(images, *(self._number(*axis) for axis in axes))
        self.values = dict(self.inputs)
        self.version = int(self.rng.choice([13, 17, 21, 22]))
        for _ in range(self._number(3, 12)):
            self._propose(self.rng.choice(_KINDS))
        used = {name for node in self._nodes for name in node.input}
        self.outputs = [name for node in self._nodes for name in node.output if name not in used]
        self.outputs += [each for each in [self._some()] if each not in (*self.inputs, *self.outputs)]
        self.model = self._model(self._nodes, self.inputs, self.outputs)

    def _model(self, nodes: Any, inputs: dict[str, Any], outputs: Any) -> ModelProto:
        shaped = [helper.make_tensor_value_info(name, _FLOAT, value.shape) for name, value in inputs.items()]
        open_ones = [helper.make_tensor_value_info(name, _FLOAT, None) for name in outputs]
        graph = helper.make_graph(nodes, "drawn", shaped, open_ones, self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.version)], ir_version=8)

    def _propose(self, draw: "Callable[[_Drawn], Any]") -> None:
        """Add a node, if it is one."""
        kept = len(self._constants)
        try:
            operator, inputs, attributes = draw(self)
            node = helper.make_node(operator, inputs, [next(self._names)], **attributes)
            known = {name: self.values[name] for name in inputs if name in self.values}
            [value] = Session(self._model([node], known, node.output)).run(known).values()
        except (LookupError, ModelError):
            del self._constants[kept:]
            return
        if 0 < value.size < _MOST and np.isfinite(value).all():
            self._nodes.append(node)
            self.values[node.output[0]] = value

    def _number(self, least: int, most: int) -> int:
        return int(self.rng.integers(least, most, endpoint=True))

    def _numbers(self, count: int, least: int, most: int) -> list[int]:
        return [self._number(least, most) for _ in range(count)]

    def _weights(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def _constant(self, value: Any) -> str:
        self._constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self._constants)}"))
        return str(self._constants[-1].name)

    def _some(self, ranks: tuple[int, ...] = (2, 3, 4)) -> str:
        """A tensor, often the last one."""
        names = [name for name, value in self.values.items() if value.ndim in ranks]
        if not names:
            raise LookupError
        return names[-1] if self.rng.integers(3) else str(self.rng.choice(names))

    def _like(self, name: str) -> str:
        shape = self.values[name].shape
        return str(self.rng.choice([other for other, value in self.values.items() if value.shape == shape]))

    def convolution(self) -> Any:
        source = self._some((3, 4))
        channels, *axes = self.values[source].shape[1:]
        groups = int(self.rng.choice([1, 1, channels, np.gcd(channels, 4)]))
        outputs, kernel = groups * self._number(1, 9 // groups or 1), [self._number(1, min(5, each)) for each in axes]
        inputs = [source, self._constant(self._weights(outputs, channels // groups, *kernel) / channels)]
        inputs += [self._constant(self._weights(outputs))] * self._number(0, 1)
        return "Conv", inputs, {**self._window(len(axes)), "group": groups, "dilations": self._steps(len(axes))}

    def _window(self, axes: int) -> dict[str, Any]:
        how = str(self.rng.choice(["NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
        pads = {"pads": self._numbers(2 * axes, 0, 2)} if how == "NOTSET" else {"auto_pad": how}
        return {"strides": self._numbers(axes, 1, 3), **pads}

    def _steps(self, axes: int) -> list[int]:
        return self._numbers(axes, 1, 2) if not self.rng.integers(4) else [1] * axes

    def pool(self) -> Any:
        source = self._some((3, 4))
        axes = self.values[source].ndim - 2
        kind = str(self.rng.choice(["MaxPool", "AveragePool"]))
        more = {"count_include_pad": self._number(0, 1)} if kind == "AveragePool" else {}
        more |= {"ceil_mode": self._number(0, 1), "kernel_shape": self._numbers(axes, 1, 3)}
        return kind, [source], {**self._window(axes), **more}

    def mean(self) -> Any:
        source = self._some((4,))
        if self.version >= 18 or not self.rng.integers(2):
            return "GlobalAveragePool", [source], {}
        return (
            "ReduceMean",
            [source],
            {"axes": [[2, 3], [-1, -2], [2], [1]][self._number(0, 3)], "keepdims": self._number(0, 1)},
        )

    def one(self) -> Any:
        return str(self.rng.choice(_SAME)), [self._some()], {}

    def clip(self) -> Any:
        ends = (self._constant(np.float32(value)) for value in (0, self.rng.choice([0.5, 1, 6])))
        return "Clip", [self._some(), *ends], {}

    def several(self) -> Any:
        operator = str(self.rng.choice(["Add", "Sum", "Sub"]))
        first = self._some()
        return (
            operator,
            [first, self._like(first), *[self._like(first)] * (operator == "Sum" and self._number(0, 1))],
            {},
        )

    def by_a_constant(self) -> Any:
        source = self._some()
        shape = self.values[source].shape
        axis = self._number(1, len(shape) - 1)
        own = [size if index == axis else 1 for index, size in enumerate(shape)][self._number(0, axis) :]
        inputs = [source, self._constant(self._weights(*(own if self.rng.integers(3) else shape)))]
        return str(self.rng.choice(["Add", "Mul", "Sub"])), inputs[:: int(self.rng.choice([1, -1]))], {}

    def normalise(self) -> Any:
        source = self._some((3, 4))
        channels = self.values[source].shape[1]
        constants = [self._weights(channels) for _ in range(3)] + [abs(self._weights(channels)) + 0.5]
        return "BatchNormalization", [source, *map(self._constant, constants)], {}

    def reshape(self) -> Any:
        source = self._some()
        shape = list(self.values[source].shape)
        for _ in range(self._number(1, 2)):  # one axis becomes two, or two neighbours one
            axis = self._number(1, len(shape) - 1)
            if self.rng.integers(2) and axis + 1 < len(shape):
                shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
            elif len(shape) < 4:
                part = int(np.gcd(shape[axis], self.rng.choice([1, 2, 3, 4, 12])))
                shape[axis : axis + 1] = [shape[axis] // part, part][:: int(self.rng.choice([1, -1]))]
        return "Reshape", [source, self._constant(np.array(shape, np.int64))], {}

    def transpose(self) -> Any:
        source = self._some()
        axes = [0, *(1 + self.rng.permutation(self.values[source].ndim - 1)).tolist()]
        return "Transpose", [source], {"perm": axes if self.rng.integers(4) else axes[::-1]}

    def dense(self) -> Any:
        source = self._some()
        inputs, outputs = self.values[source].shape[-1], self._number(1, 9)
        matrix = self._weights(inputs, outputs) / inputs
        if self.values[source].ndim > 2:
            return "MatMul", [source, self._constant(matrix)], {}
        flipped = self._number(0, 1)
        return "Gemm", [source, self._constant(matrix.T if flipped else matrix)], {"transB": flipped}

    def join(self) -> Any:
        first = self._some()
        return (
            "Concat",
            [first, str(self.rng.choice([*self.values]))],
            {"axis": self._number(1, self.values[first].ndim - 1)},
        )

    def cut(self) -> Any:
        source = self._some()
        axis = self._number(1, self.values[source].ndim - 1)
        ends = sorted(self._numbers(2, 0, self.values[source].shape[axis]))
        return "Slice", [source, *(self._constant(np.array([each], np.int64)) for each in (*ends, axis))], {}

    def border(self) -> Any:
        pads = [0, 0, *self._numbers(2, 0, 2), 0, 0, *self._numbers(2, 0, 2)]
        return "Pad", [self._some((4,)), self._constant(np.array(pads, np.int64))], {}


_KINDS = (*[_Drawn.convolution] * 3, *[_Drawn.pool] * 2, *[_Drawn.one] * 2, *[_Drawn.several] * 2, _Drawn.by_a_constant)
_KINDS += (_Drawn.mean, _Drawn.clip, _Drawn.normalise, _Drawn.reshape, _Drawn.transpose, _Drawn.dense, _Drawn.join)
_KINDS += (_Drawn.cut, _Drawn.border)


def _config(rng: np.random.Generator) -> AcceleratorConfig:
    """Memories down to those that hold hardly a tile; weights come over a bus, or there is room for all."""
    size, beat = int(rng.choice([2, 3, 4, 8])), int(rng.choice([0, 32]))
    weights = int(rng.choice([64, 200, 1000])) if beat else 1 << 16
    depth, rows = int(rng.choice([8, 16, 64, 256])), int(rng.choice([120, 300, 1000, 4096]))
    return AcceleratorConfig(size, int(rng.integers(1, 4)), depth, rows, weights, beat=beat)


def _check(seed: int, config: AcceleratorConfig | None, player: Player) -> int:
    """Compare a network's outputs, and return how many layers the accelerator had."""
    drawn = _Drawn(seed)
    network = fitted(compile_parts(drawn.model, config or _config(drawn.rng), None)[0])
    outcome = run_network(network, drawn.inputs, player, _opened, check=config is not None)
    assert outcome.wrong == 0, seed
    for name in drawn.outputs:
        expected, runs = drawn.values[name], [each[name] for each in outcome.outputs]
        found = runs[0] if len(runs) == 1 else np.concatenate(runs)
        assert found.shape == expected.shape, (seed, name)
        error, scale = (np.sqrt(np.mean(each.astype(np.float64) ** 2)) for each in (found - expected, expected))
        assert error < 0.1 * scale + 1e-3 * max(1, abs(expected).max()), (seed, name)
    return sum(len(part.lowered.layers) for part in network.machine)


@pytest.mark.parametrize("count", [60, slow(400), thorough(4000)])
def test_numbers(count: int) -> None:
    assert sum(_check(seed, None, Definition()) for seed in range(count)) > count


@needs_compiler
@pytest.mark.parametrize("count", [10, slow(150)])
def test_words_of_the_rtl(count: int) -> None:
    """Each word of memories and scratchpad is the definition's."""
    player = Simulation()
    config = AcceleratorConfig(size=2, stages=2, depth=16, rows=200, weights=64, beat=32)
    assert sum(_check(seed, config, player) for seed in range(count)) > count
