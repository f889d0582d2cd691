"""Compiled networks in files: ``.mxa``, an archive of arrays as numpy writes them."""

import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openmxu.spec.accelerator import AcceleratorConfig, check_program
from openmxu.spec.commands import WORDS, Command
from openmxu_sim.accelerator.lowering import LayerReport, Lowered
from openmxu_sim.accelerator.pictures import Packing, Picture, View
from openmxu_sim.accelerator.waits import check_waits
from openmxu_sim.operands.npy import read_arrays


class Port(NamedTuple):
    """A tensor that a part reads, or that leaves it."""

    name: str
    """That of the tensor."""
    picture: str
    """The picture that it is, in the program's names."""
    view: View


@dataclass(frozen=True)
class MachinePart:
    """Layers of a network on an accelerator of a certain size."""

    lowered: Lowered
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True)
class HostPart:
    """Nodes of a network that a processor computes."""

    model: bytes
    """They, as an ONNX model."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Input(NamedTuple):
    """An input of a network."""

    name: str
    dims: tuple[int, ...]
    dtype: str
    """Its type in numpy."""


@dataclass(frozen=True)
class CompiledNetwork:
    """A network in parts, which run one after another."""

    inputs: tuple[Input, ...]
    parts: tuple[MachinePart | HostPart, ...]
    outputs: tuple[str, ...]

    @property
    def machine(self) -> tuple[MachinePart, ...]:
        """The parts on the accelerator."""
        return tuple(part for part in self.parts if isinstance(part, MachinePart))

    def alone(self) -> MachinePart:
        """The one part of a network that needs no host; a :exc:`ValueError` if it is another one."""
        [first, *others] = self.parts or [None]
        if others or not isinstance(first, MachinePart):
            raise ValueError(
                f"MODEL must run on the accelerator from its input to its output, not in {len(self.parts)} parts"
            )
        return first


_VERSION = 2


def write_network(network: CompiledNetwork) -> bytes:
    """Return the content of a ``.mxa`` file: what parts there are in JSON, and arrays of each."""
    arrays = dict[str, npt.NDArray[Any]]()
    parts = list[dict[str, Any]]()
    for index, part in enumerate(network.parts):
        if isinstance(part, HostPart):
            arrays[f"host{index}"] = np.frombuffer(part.model, np.uint8)
            parts.append({"host": f"host{index}", "inputs": part.inputs, "outputs": part.outputs})
            continue
        lowered = part.lowered
        arrays[f"program{index}"] = np.array([command.words for command in lowered.program], np.uint32)
        arrays[f"weights{index}"] = lowered.weights
        facts = {
            "pictures": {name: asdict(picture) for name, picture in lowered.pictures.items()},
            "layers": [
                {**asdict(layer), "commands": [layer.commands.start, layer.commands.stop]} for layer in lowered.layers
            ],
            **{name: getattr(lowered, name) for name in ("memory", "alternative")},
            **{name: [[*port] for port in getattr(part, name)] for name in ("inputs", "outputs")},
        }
        parts.append({"config": asdict(lowered.config), **facts})
    segments = {"version": _VERSION, "inputs": network.inputs, "outputs": network.outputs, "parts": parts}
    text = np.frombuffer(json.dumps(segments).encode(), np.uint8)
    kept = io.BytesIO()
    np.savez_compressed(kept, allow_pickle=False, segments=text, **arrays)
    return kept.getvalue()


_MOST_FACTS = 1 << 24
"""Most bytes of facts: 256 for each command of the largest program."""

_MOST = 1 << 63
"""Cycles and products of a layer are fewer."""

_DEEPEST = 100
"""Most brackets that are open at once: json recurses, and what Python does at its limit is not certain."""


def read_network(path: Path) -> CompiledNetwork:
    """Read a ``.mxa`` file; a :exc:`ValueError` says what is wrong with it, or with a program."""
    try:
        arrays = read_arrays(path, "MODEL")
        if "facts" in arrays and "segments" not in arrays:
            raise ValueError("it is of version 1: compile the model again")
        segments = _facts(_bytes(arrays, "segments"))
        if segments["version"] != _VERSION:
            raise ValueError(f"it is of version {segments['version']}, not {_VERSION}: compile the model again")
        inputs = tuple(_input(*each) for each in segments["inputs"])
        parts = tuple(_part(arrays, index, facts) for index, facts in enumerate(segments["parts"]))
        network = CompiledNetwork(inputs, parts, _names(segments["outputs"]))
        _check_order(network)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f"MODEL must be a network that openmxu compile wrote, not {path}: {reason}") from None
    return network


def _check_order(network: CompiledNetwork) -> None:
    """Refuse a part that reads what none before it gives, and machines that differ."""
    known = {each.name for each in network.inputs}
    for part in network.parts:
        read, given = (
            [each if isinstance(each, str) else each.name for each in some] for some in (part.inputs, part.outputs)
        )
        if missing := [name for name in read if name not in known]:
            raise ValueError(f"a part must read what is computed before, not {missing[0][:200]}")
        known.update(given)
    if missing := [name for name in network.outputs if name not in known] or [""] * (not network.outputs):
        raise ValueError(f"an output must be computed, not {missing[0][:200]}")
    if len({part.lowered.config for part in network.machine}) > 1:
        raise ValueError("all parts must be for the same accelerator")


def _names(names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("names must be a list of texts")
    return tuple(names)


def _input(name: Any, dims: Any, dtype: Any) -> Input:
    sizes = tuple(map(int, dims))
    if min(sizes, default=1) < 1 or math.prod(sizes) >= _MOST or np.dtype(str(dtype)).hasobject:
        raise ValueError(f"an input must be numbers of a shape, not {dtype} {sizes}"[:200])
    return Input(str(name), sizes, str(dtype))


def _part(arrays: Mapping[str, npt.NDArray[Any]], index: int, facts: Any) -> MachinePart | HostPart:
    if "host" in facts:
        return HostPart(_bytes(arrays, f"host{index}"), _names(facts["inputs"]), _names(facts["outputs"]))
    config = AcceleratorConfig(**facts["config"])
    words = _checked(arrays, f"program{index}", np.uint32, WORDS)
    if words.size > config.program or len(facts["layers"]) > len(words):
        raise ValueError(
            f"a program must have at most {config.program // WORDS} commands, and no more layers than commands, "
            f"not {len(words)} and {len(facts['layers'])}"
        )
    program = [Command.of_words(each.tolist()) for each in words]
    weights = _checked(arrays, f"weights{index}", np.uint16, config.size)
    pictures = {str(name): _picture(fields) for name, fields in facts["pictures"].items()}
    layers = [_layer(fields, len(program)) for fields in facts["layers"]]
    if not layers:
        raise ValueError("it must have a layer")
    memory, alternative = int(facts["memory"]), int(facts["alternative"])
    if memory % config.size or not 0 <= memory <= 1 << 32:
        raise ValueError(f"memory must be rows of {config.size} words, at most {1 << 32}, not {memory}")
    if not 0 <= alternative <= 1 << 32:
        raise ValueError(f"alternative must be at most {1 << 32} rows, not {alternative}")
    rows = memory // config.size or config.rows
    if not all(_lies_in(picture, config.size, rows) for picture in pictures.values()):
        raise ValueError("an image is not in the scratchpad or the memory")
    inputs, outputs = (tuple(_port(pictures, *each) for each in facts[name]) for name in ("inputs", "outputs"))
    if not inputs or not outputs or len({port.view.images for port in (*inputs, *outputs)}) != 1:
        raise ValueError("a part must have inputs and outputs, all of as many images")
    check_program(config, program)
    check_waits(config, program)
    return MachinePart(Lowered(config, program, weights, pictures, layers, memory, alternative), inputs, outputs)


def _port(pictures: Mapping[str, Picture], name: Any, picture: Any, view: Any) -> Port:
    dims, (images, *shape), order = view
    found = View(tuple(map(int, dims)), (int(images), *map(int, shape)), str(order))  # type: ignore[arg-type]
    found.check()
    if picture not in pictures:
        raise ValueError(f"{str(picture)[:200]} must be an image of it")
    if found.shape != pictures[picture].shape:
        raise ValueError(f"{str(picture)[:200]} must have the shape {pictures[picture].shape}, not {found.shape}")
    return Port(str(name), picture, found)


def _bytes(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> bytes:
    array = arrays[name]
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError(f"{name} must be bytes, not {array.dtype} {array.shape}")
    return array.tobytes()


def _facts(text: bytes) -> Any:
    if len(text) > _MOST_FACTS:
        raise ValueError(f"facts must have at most {_MOST_FACTS} bytes, not {len(text)}")
    bytes_of_text = np.frombuffer(text, np.uint8)
    steps = np.isin(bytes_of_text, [*b"[{"]).astype(np.int32) - np.isin(bytes_of_text, [*b"]}"])
    if np.cumsum(steps).max(initial=0) > _DEEPEST:
        raise ValueError(f"facts must be nested at most {_DEEPEST} deep")
    return json.loads(text)


def _layer(fields: dict[str, Any], commands: int) -> LayerReport:
    first, last = map(int, fields["commands"])
    cycles, products = int(fields["cycles"]), int(fields["products"])
    if not 0 <= first <= last <= commands or not 1 <= cycles < _MOST or not 0 <= products < _MOST:
        raise ValueError("a layer has impossible commands, cycles or products")
    return LayerReport(str(fields["name"]), range(first, last), cycles, products)


def _checked(arrays: Mapping[str, npt.NDArray[Any]], name: str, dtype: type, row: int) -> npt.NDArray[Any]:
    array = arrays[name]
    if array.dtype != dtype or array.ndim != 2 or array.shape[1] != row:
        raise ValueError(f"{name} must be rows of {row} in {np.dtype(dtype)}, not {array.dtype} {array.shape}")
    return array


def _picture(fields: Mapping[str, Any]) -> Picture:
    numbers = {name: int(fields[name]) for name in ("base", "channels", "height", "width")}
    kernel, stride, padding, line = fields["packing"]
    above, left, below, right = map(int, fields["border"])
    packing = Packing(int(kernel), int(stride), (int(padding[0]), int(padding[1])), int(line))
    return Picture(**numbers, border=(above, left, below, right), packing=packing)


def _lies_in(picture: Picture, size: int, rows: int) -> bool:
    sizes = (picture.channels, picture.height, picture.width, *picture.packing[:2])
    if (
        min(sizes) < 1
        or min(picture.base, *picture.border, *picture.packing.padding, picture.packing.width) < 0
        or picture.channels % picture.packing.kernel
    ):
        return False
    return picture.end(size) <= rows
