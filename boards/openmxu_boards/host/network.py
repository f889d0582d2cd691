"""Programs on a board's accelerator."""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from openmxu.accelerator import Stop
from openmxu.spec.accelerator import AcceleratorConfig, check_program, rows_read, rows_written
from openmxu.spec.commands import Command as Instruction
from openmxu.spec.commands import assemble
from openmxu.spec.formats import BF16
from openmxu_boards.host.host import Host
from openmxu_boards.host.program import TILE, Load
from openmxu_boards.host.session import BoardError
from openmxu_boards.protocol import KEEP, LOAD, START, Command
from openmxu_sim.accelerator.container import MachinePart
from openmxu_sim.accelerator.definition import Halves, Memories, run
from openmxu_sim.accelerator.lowering import Lowered
from openmxu_sim.accelerator.players import Played
from openmxu_sim.accelerator.waits import check_waits, with_waits
from openmxu_sim.operands.stimulus import read_words

_OUTCOME = struct.Struct("<IHHIIB")
"""Of a run: cycles, tag, index, whether the end was reached, the word that is kept, and why it stopped."""


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
    _load(host, program, memories)
    return _start(host, 0, cycles), _rows(host, range(memories.config.rows))


def play_picture(host: Host, part: MachinePart, memories: Memories, *, whole: bool) -> tuple[int, Halves]:
    """Run a part of a network on the pictures in ``memories``, whose other rows are 0; raises as :func:`play` does.

    Program, weights and zeros stay on the board, with a digest that the next write or start clears: while it is there,
    only the picture is sent. Of a program that would read what it wrote, all is sent each time. Returns the cycles, and
    a scratchpad with the rows of the result, or all if ``whole``.
    """
    lowered = part.lowered
    sent = [_span(lowered, port.picture) for port in part.inputs]
    facts = repr((lowered.config, sent, [command.words for command in lowered.program])).encode()
    digest = int.from_bytes(hashlib.sha256(facts + memories.weights.tobytes()).digest()[:4], "little") or 1
    digest *= _is_the_same_again(lowered.program, sent)
    if digest and _ask(host, Command.COUNTERS)[4] == digest:
        for rows in sent:
            _write(host, memories.scratchpad, rows)
    else:
        _load(host, lowered.program, memories)
    taken = _start(host, digest, sum(layer.cycles for layer in lowered.layers))
    read, scratchpad = range(len(memories.scratchpad)), np.zeros_like(memories.scratchpad)
    for rows in [read] if whole else [_span(lowered, port.picture) for port in part.outputs]:
        scratchpad[rows.start : rows.stop] = _rows(host, rows)
    return taken, scratchpad


class BoardPlayer:
    """A board's accelerator, a :class:`~openmxu_sim.accelerator.players.Player`; ``whole`` as in :func:`play_picture`.

    ``taken`` are the bytes on the port, and the seconds, of each picture.
    """

    machines, needs_bus = 1, True

    def __init__(self, host: Host, *, whole: bool) -> None:
        self._host, self._whole = host, whole
        self.taken: list[tuple[int, float]] = []

    def play(self, part: MachinePart, memories: Sequence[Memories]) -> Played:
        [own] = memories
        carried, now = self._host.carried, self._host.now()
        cycles, scratchpad = play_picture(self._host, part, own, whole=self._whole)
        self.taken.append((self._host.carried - carried, self._host.now() - now))
        return Played([scratchpad], [cycles])


def _span(lowered: Lowered, name: str) -> range:
    """Rows from the first pixel of a picture to its last."""
    rows = lowered.pictures[name].rows(lowered.config.size)
    return range(int(rows.min()), int(rows.max()) + 1)


def _is_the_same_again(program: Sequence[Instruction], sent: Sequence[range]) -> bool:
    """Whether a program that runs again reads nothing that it wrote before: borders stay zeros."""
    written, before = set[int](), set[int]()
    for command in program:
        before |= set(rows_read(command).tolist()) - written
        written |= set(rows_written(command).tolist())
    return not before & written - set(chain.from_iterable(sent))


def _load(host: Host, program: Sequence[Instruction], memories: Memories) -> None:
    """Write a program and all of the memories."""
    config, sizes = accelerator_of(host), memories.config
    if sizes.size != config.size or sizes.rows > config.rows or sizes.weights > config.weights:
        raise ValueError(f"the network must be compiled for {_sizes(config)}, not {_sizes(sizes)}")
    check_program(config, program)
    check_waits(config, program)
    _write(host, memories.weights, range(sizes.weights), weights=True)
    _write(host, memories.scratchpad, range(sizes.rows))
    words = [word for command in program for word in command.words]
    tiles = [address.to_bytes(2, "little") + word.to_bytes(4, "little") for address, word in enumerate(words)]
    most = (host.identity.frame - LOAD) // TILE
    for first in range(0, len(tiles), most):
        _ask(host, Command.RUN, bytes(2) + b"".join(tiles[first : first + most]))


def _write(host: Host, memory: Halves, rows: range, *, weights: bool = False) -> None:
    beats = memory[rows.start : rows.stop].astype("<u2").tobytes()
    host.load(Load(weights, rows.start, beats, 2 * memory.shape[1]))


def _start(host: Host, digest: int, cycles: int) -> int:
    """Start the program, and let the board keep a word behind it; the cycles that it took."""
    tiles = struct.pack("<HHIHI", 0, START, 0, KEEP, digest)
    taken, _, index, ended, _, stop = _ask(host, Command.RUN, tiles, 2 * cycles / max(host.identity.clock, 1))
    if stop or not ended:
        raise BoardError(f"command {index} stopped the accelerator of the board on {host.port}: {Stop(stop).name}")
    return taken


def _ask(host: Host, command: Command, arguments: bytes = b"", seconds: float = 0.0) -> tuple[int, ...]:
    data = host.ask(command, arguments, reply=_OUTCOME.size, seconds=seconds)
    if len(data) != _OUTCOME.size:
        raise BoardError(f"the board on {host.port} gave {len(data)} bytes of a run, not {_OUTCOME.size}")
    return _OUTCOME.unpack(data)


def _rows(host: Host, rows: range) -> Halves:
    size = accelerator_of(host).size
    beats = host.results(len(rows), 2 * size, first=rows.start)
    return np.array([read_words(beat, BF16.width, size) for beat in beats], np.uint16)


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
    """Run a program ``count`` times on random words; the number of wrong words of the scratchpad, and of all."""
    config, wrong = accelerator_of(host), 0
    config = replace(config, rows=min(config.rows, 128), weights=min(config.weights, 128))
    program = with_waits(config, assemble(_PROGRAM))
    for seed in range(count):
        rng = np.random.default_rng(seed)
        sizes = (config.weights, config.size), (config.rows, config.size)
        memories = Memories(config, *(rng.integers(0, 1 << 16, size, np.uint16) for size in sizes))
        _, scratchpad = play(host, program, memories)
        run(program, memories)
        wrong += int(np.count_nonzero(scratchpad != memories.scratchpad))
    return wrong, count * config.rows * config.size
