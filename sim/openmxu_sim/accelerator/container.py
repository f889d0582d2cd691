"""Compiled networks in files: ``.mxa``, an archive of arrays as numpy writes them."""

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu.spec.accelerator import AcceleratorConfig, check_program
from openmxu.spec.commands import WORDS, Command
from openmxu_sim.accelerator.lowering import LayerReport, Lowered, Packing, Picture
from openmxu_sim.accelerator.waits import check_waits
from openmxu_sim.operands.npy import read_arrays


@dataclass(frozen=True)
class CompiledNetwork:
    """A network for an accelerator of a certain size."""

    lowered: Lowered
    source: str
    """Name of the input."""
    result: str
    """Name of the layer whose results leave the accelerator."""
    output: str
    """Name of the output."""
    host: bytes = b""
    """ONNX model of what the host computes from the result."""
    flat: bool = False
    """Whether the result is a vector."""


def write_network(network: CompiledNetwork) -> bytes:
    """Return the content of a ``.mxa`` file."""
    lowered = network.lowered
    facts = {
        "config": asdict(lowered.config),
        "pictures": {name: asdict(picture) for name, picture in lowered.pictures.items()},
        "layers": [
            {**asdict(layer), "commands": [layer.commands.start, layer.commands.stop]} for layer in lowered.layers
        ],
        **{name: getattr(network, name) for name in ("source", "result", "output", "flat")},
        **{name: getattr(lowered, name) for name in ("memory", "alternative")},
    }
    kept = io.BytesIO()
    np.savez_compressed(
        kept,
        allow_pickle=False,
        program=np.array([command.words for command in lowered.program], np.uint32),
        weights=lowered.weights,
        host=np.frombuffer(network.host, np.uint8),
        facts=np.frombuffer(json.dumps(facts).encode(), np.uint8),
    )
    return kept.getvalue()


_MOST_FACTS = 1 << 24
"""Most bytes of facts: 256 for each command of the largest program."""

_MOST = 1 << 63
"""Cycles and products of a layer are fewer."""

_DEEPEST = 100
"""Most brackets that are open at once: json recurses, and what Python does at its limit is not certain."""


def read_network(path: Path) -> CompiledNetwork:
    """Read a ``.mxa`` file; a :exc:`ValueError` says what is wrong with it, or with its program."""
    try:
        arrays = read_arrays(path, "MODEL")
        facts = _facts(_bytes(arrays, "facts"))
        config = AcceleratorConfig(**facts["config"])
        words = _checked(arrays, "program", np.uint32, WORDS)
        if words.size > config.program or len(facts["layers"]) > len(words):
            raise ValueError(
                f"a program must have at most {config.program // WORDS} commands, and no more layers than commands, "
                f"not {len(words)} and {len(facts['layers'])}"
            )
        program = [Command.of_words(each.tolist()) for each in words]
        weights = _checked(arrays, "weights", np.uint16, config.size)
        pictures = {name: _picture(fields) for name, fields in facts["pictures"].items()}
        layers = [_layer(fields, len(program)) for fields in facts["layers"]]
        names = {name: str(facts[name]) for name in ("source", "result", "output")}
        if not layers:
            raise ValueError("it must have a layer")
        if missing := {names["source"], names["result"]} - set(pictures):
            raise ValueError(f"source and result must be images of it, not {', '.join(sorted(missing))[:200]}")
        memory, alternative = int(facts["memory"]), int(facts["alternative"])
        if memory % config.size or not 0 <= memory <= 1 << 32:
            raise ValueError(f"memory must be rows of {config.size} words, at most {1 << 32}, not {memory}")
        if not 0 <= alternative <= 1 << 32:
            raise ValueError(f"alternative must be at most {1 << 32} rows, not {alternative}")
        rows = memory // config.size or config.rows
        if not all(_lies_in(picture, config.size, rows) for picture in pictures.values()):
            raise ValueError("an image is not in the scratchpad or the memory")
        check_program(config, program)
        check_waits(config, program)
        host, flat = _bytes(arrays, "host"), facts["flat"]
        if not isinstance(flat, bool):
            raise ValueError(f"flat must be true or false, not {flat!r}")
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f"MODEL must be a network that openmxu compile wrote, not {path}: {reason}") from None
    lowered = Lowered(config, program, weights, pictures, layers, memory, alternative)
    return CompiledNetwork(lowered, **names, host=host, flat=flat)


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
