"""A page in which the accelerator recognises a digit: a convolution, a pool and a dense layer, cycle by cycle."""

import numpy as np

from openmxu.runtime.native import resource
from openmxu.spec.accelerator import AcceleratorConfig, rows_written
from openmxu.spec.commands import disassemble
from openmxu_sim.accelerator.definition import Halves, Memories, run
from openmxu_sim.accelerator.lowering import Layer, Lowered, lower
from openmxu_sim.accelerator.simulation import machine_text, netlist
from openmxu_sim.operands.aliases import Floats
from openmxu_sim.wave.page.document import document, packed
from openmxu_sim.wave.page.wasm import build_wasm

CONFIG = AcceleratorConfig(depth=32, rows=256, weights=256, program=128)
"""The machine in the page: a convolution of 64 pixels takes two commands."""

_DIGITS = (
    *("3C4242424242423C", "081828080808083E", "3C4202040810207E", "3C42021C0202423C", "040C1424447E0404"),
    *("7E40407C0202423C", "1C20407C4242423C", "7E02040408081010", "3C42423C4242423C", "3C4242423E020438"),
)
"""Pictures of 8x8 pixels, a byte for each line."""

_SIDE = range(CONFIG.size)
_WATCHED = (
    *(f"fetch.{name}" for name in ("state", "word", "o_begin", "o_begin_weights", "o_exchanged")),
    *("weights.loop.i_next", "feeder.o_busy"),
    *(f"{reader}.{name}" for reader in ("weights", "feeder") for name in ("o_read", "o_address")),
    *(f"writer.{name}" for name in ("o_ready", "o_done", "o_write", "o_row", "o_lanes", "o_data")),
    *(f"mxu.{name}__{end}" for name in ("weights", "activations", "results") for end in ("valid", "ready")),
    *(f"mxu.bank.column_{column}.o_control" for column in _SIDE),
    *(
        f"mxu.array.row_{row}.pe_{column}.{name}"
        for row in _SIDE
        for column in _SIDE
        for name in ("active", "o_activation")
    ),
)


def digits() -> Floats:
    """Return ten pictures, (digit, y, x), of zeros and ones."""
    lines = np.array([list(bytes.fromhex(digit)) for digit in _DIGITS], np.uint8)
    return np.unpackbits(lines[..., np.newaxis], axis=2).astype(np.float32)


def recogniser() -> Lowered:
    """Return a network that gives each of the ten pictures its largest score where the picture's number is."""
    line, slant = np.array([[-0.5], [1], [-0.5]]) * np.ones(3), np.eye(3) * 1.5 - 0.5
    kernels = np.stack([line, line.T, slant, slant[::-1]])[:, np.newaxis].astype(np.float32)
    layers = [
        Layer("lines", "digit", (3, 3), padding=(1,) * 4, weight=kernels, bias=np.full(4, -0.5, np.float32), relu=True),
        Layer("pooled", "lines", (2, 2), (2, 2)),
    ]
    first = lower(CONFIG, {"digit": (1, 8, 8)}, layers)
    seen = np.stack([first.get("pooled", scratchpads(first, picture)[1]) for picture in digits()])
    # The nearest of the ten to x has the largest f · x - |f|² / 2.
    scores = Layer("scores", "pooled", (4, 4), weight=seen, bias=-np.square(seen).sum((1, 2, 3)) / 2)
    return lower(CONFIG, {"digit": (1, 8, 8)}, [*layers, scores])


def scratchpads(network: Lowered, picture: Floats) -> tuple[Halves, Halves]:
    """Return the scratchpad with a picture, and what the program makes of it by the definition."""
    memories = Memories(CONFIG, network.weights)
    network.put("digit", picture[np.newaxis], memories.scratchpad)
    before = memories.scratchpad.copy()
    run(network.program, memories)
    return before, memories.scratchpad


def machine_c() -> tuple[str, dict[str, int]]:
    """Return the C text of the machine, and where a frame has each wire that is watched."""
    text, frame = machine_text(netlist(CONFIG), CONFIG, _WATCHED)
    most = f"enum {{ MOST = {max(CONFIG.program, CONFIG.weights, CONFIG.rows)} }};"
    return "\n".join([text, most, resource("openmxu_sim.wave.page", "watched.c")]), frame


def accelerator_page(*, made_by: str = "") -> str:
    """Return a page in which the accelerator runs on ten digits, as HTML; it needs the package ziglang."""
    text, frame = machine_c()
    module = build_wasm(text)
    network = recogniser()
    layers = {index: layer.name for layer in network.layers for index in layer.commands}
    used = 1 + max(rows_written(command).max(initial=0) for command in network.program)
    words = np.array([scratchpads(network, picture) for picture in digits()])[:, :, :used]
    texts = disassemble(network.program).splitlines()
    data = {
        "machine": {"size": CONFIG.size, "stages": CONFIG.stages, "step": CONFIG.unit.row_step},
        "frame": frame,
        "commands": [
            {"text": texts[index], "layer": layers.get(index, ""), "computes": command.values["computes"]}
            | {"writes": len(rows_written(command)), "words": command.words}
            for index, command in enumerate(network.program)
        ],
        "pictures": [
            {"name": name, "base": picture.base, "plane": picture.plane, "pitch": picture.pitch}
            for name, picture in network.pictures.items()
        ],
        "weights": packed(network.weights.astype("<u2").tobytes()),
        "words": packed(words.astype("<u2").tobytes()),
        "module": packed(module),
    }
    about = "The netlist of an open accelerator recognises a digit in this page, word for word and clock by clock."
    return document("watched", "OpenMXU, the accelerator", about, data, made_by)
