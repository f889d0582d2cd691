"""Programs on a board's accelerator."""

import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openmxu.accelerator import Stop
from openmxu.spec.accelerator import AcceleratorConfig, check_program
from openmxu.spec.commands import Command as Instruction
from openmxu.spec.commands import assemble
from openmxu.spec.formats import BF16
from openmxu_boards.host.host import Host
from openmxu_boards.host.program import TILE, Load
from openmxu_boards.host.session import BoardError
from openmxu_boards.protocol import LOAD, START, Command
from openmxu_sim.accelerator.definition import Halves, Memories, run
from openmxu_sim.accelerator.waits import check_waits, with_waits
from openmxu_sim.operands.stimulus import read_words

_OUTCOME = struct.Struct("<IHHIIB")
"""Of a run: cycles, tag, index, whether the end was reached, zero, and why it stopped."""


def accelerator_of(host: Host) -> AcceleratorConfig:
    """The board's accelerator; a :exc:`ValueError` if it has none."""
    config = host.identity.accelerator
    if config is None:
        raise ValueError(f"the board on {host.port} must have an accelerator, and has a unit alone")
    return config


def play(host: Host, program: Sequence[Instruction], memories: Memories, *, cycles: int = 0) -> tuple[int, Halves]:
    """Write a program and all of the memories, run it, and read the scratchpad; the cycles that the program took.

    ``cycles`` are those that are expected, to wait for.

    Raises
    ------
    BoardError
        The program stopped, or the board does not answer.
    ValueError
        The board has no such accelerator.
    """
    config, sizes = accelerator_of(host), memories.config
    if sizes.size != config.size or sizes.rows > config.rows or sizes.weights > config.weights:
        raise ValueError(f"the network must be compiled for {_sizes(config)}, not {_sizes(sizes)}")
    check_program(config, program)
    check_waits(program)
    size = 2 * config.size
    for weights, rows in ((True, memories.weights), (False, memories.scratchpad)):
        host.load(Load(weights, 0, rows.astype("<u2").tobytes(), size))
    words = [word for command in program for word in command.words]
    tiles = [address.to_bytes(2, "little") + word.to_bytes(4, "little") for address, word in enumerate(words)]
    most = (host.identity.frame - LOAD) // TILE
    for first in range(0, len(tiles), most):
        host.ask(Command.RUN, bytes(2) + b"".join(tiles[first : first + most]), reply=_OUTCOME.size)
    seconds = 2 * cycles / max(host.identity.clock, 1)
    start = bytes(2) + START.to_bytes(2, "little") + bytes(4)
    data = host.ask(Command.RUN, start, reply=_OUTCOME.size, seconds=seconds)
    if len(data) != _OUTCOME.size:
        raise BoardError(f"the board on {host.port} gave {len(data)} bytes of a run, not {_OUTCOME.size}")
    taken, _, index, ended, _, stop = _OUTCOME.unpack(data)
    if stop or not ended:
        raise BoardError(f"command {index} stopped the accelerator of the board on {host.port}: {Stop(stop).name}")
    beats = host.results(sizes.rows, size)
    return taken, np.array([read_words(beat, BF16.width, sizes.size) for beat in beats], np.uint16)


def _sizes(config: AcceleratorConfig) -> str:
    size = config.size
    return f"{size}x{size}, {2 * size * config.rows} bytes of scratchpad and {2 * size * config.weights} of weights"


_PROGRAM = """
matmul reads=0 writes=32 weights=0 bias relu emit x=12:1:1 y=2:16:12 kx=3:1 n=2:0:32
matmul reads=0 writes=96 weights=64 x=8:1:1
matmul reads=8 writes=96 weights=96 add emit x=8:1:1
pool reads=32 writes=104 x=6:2:1 y=2:12:6 kx=2:1
end tag=7
"""
"""Biases, several tiles, sums that stay, and a pool that waits; in 128 rows, as a UART is slow."""


def check_network(host: Host, count: int) -> tuple[int, int]:
    """Run a program on any words, so many times; the words of the scratchpad that are wrong, and all."""
    config, wrong = accelerator_of(host), 0
    config = replace(config, rows=min(config.rows, 128), weights=min(config.weights, 128))
    program = with_waits(assemble(_PROGRAM))
    for seed in range(count):
        rng = np.random.default_rng(seed)
        sizes = (config.weights, config.size), (config.rows, config.size)
        memories = Memories(config, *(rng.integers(0, 1 << 16, size, np.uint16) for size in sizes))
        _, scratchpad = play(host, program, memories)
        run(program, memories)
        wrong += int(np.count_nonzero(scratchpad != memories.scratchpad))
    return wrong, count * config.rows * config.size
