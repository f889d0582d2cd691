"""The definition of the accelerator's commands: against layers computed in another way, and against tables."""

import itertools
import re

import numpy as np
import pytest

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import assemble
from openmxu_sim.accelerator import Memories, run
from openmxu_sim.accelerator.definition import largest

_MACHINE = AcceleratorConfig(size=4, stages=1, depth=64, rows=256, weights=160)
_NONE = np.zeros((0, 4), np.uint16)


def _bf16(values: np.ndarray) -> np.ndarray:
    """Patterns of numbers that bf16 has."""
    patterns = np.asarray(values, np.float32).view(np.uint32)
    assert not (patterns & 0xFFFF).any()
    return (patterns >> 16).astype(np.uint16)


def _rounded(values: np.ndarray) -> np.ndarray:
    """Patterns of the nearest numbers of bf16, ties to even."""
    patterns = np.asarray(values, np.float32).view(np.uint32)
    return ((patterns + 0x7FFF + (patterns >> 16 & 1)) >> 16).astype(np.uint16)


def test_a_convolution() -> None:
    """3x3 kernel, 8 channels of 6x5 pixels with a border to 8 others, stride 2, bias, ReLU: by loops over channels."""
    rng = np.random.default_rng(1)
    image = rng.integers(-99, 100, (8, 6, 5)).astype(np.float32) / 8
    weight = rng.integers(-99, 100, (8, 8, 3, 3)).astype(np.float32) / 64
    bias = rng.standard_normal(8).astype(np.float32)
    padded = np.zeros((2, 8, 7, 4), np.uint16)  # block, y, x, channel
    padded[:, 1:7, 1:6] = _bf16(image).reshape(2, 4, 6, 5).transpose(0, 2, 3, 1)
    rows = []
    for n in range(2):
        halves = bias[4 * n : 4 * n + 4].view(np.uint32)
        rows += [halves & 0xFFFF, halves >> 16]
        for block, ky, kx in itertools.product(range(2), range(3), range(3)):
            tile = weight[4 * n : 4 * n + 4, 4 * block : 4 * block + 4, ky, kx]
            rows += list(_bf16(tile.T)[::-1])
    memories = Memories(_MACHINE, np.array(rows, np.uint16))
    memories.scratchpad[: 2 * 56] = padded.reshape(-1, 4)
    program = assemble(
        "matmul reads=0 writes=200 weights=0 bias emit relu "
        "x=3:2:1 y=3:14:3 kx=3:1 ky=3:7 block=2:56 n=2:0:9\nend tag=5"
    )
    assert run(program, memories) == [5]
    for n, y, x in itertools.product(range(2), range(3), range(3)):
        total = bias[4 * n : 4 * n + 4].copy()
        for block, ky, kx in itertools.product(range(2), range(3), range(3)):
            tile = np.zeros(4, np.float32)
            for channel in range(4 * block, 4 * block + 4):
                row, column = 2 * y + ky - 1, 2 * x + kx - 1
                inside = 0 <= row < 6 and 0 <= column < 5
                pixel = image[channel, row, column] if inside else np.float32(0)
                tile = tile + pixel * weight[4 * n : 4 * n + 4, channel, ky, kx]
            total = total + tile
        expected = _rounded(np.maximum(total, 0))
        assert (memories.scratchpad[200 + 9 * n + 3 * y + x] == expected).all()


def test_sums_that_stay_are_added_to() -> None:
    """A residual sum: 2a + 3b + 0.5, by two commands, and clipped to 6."""
    memories = Memories(_MACHINE, np.zeros((10, 4), np.uint16))
    memories.weights[1] = 0x3F00
    memories.weights[2:6] = _bf16(2 * np.eye(4))[::-1]
    memories.weights[6:10] = _bf16(3 * np.eye(4))[::-1]
    a, b = np.arange(-8, 8).reshape(4, 4), np.arange(16).reshape(4, 4) % 3
    memories.scratchpad[:8] = _bf16(np.concatenate([a, b]))
    program = assemble(
        "matmul reads=0 writes=0 weights=0 bias x=4:1\n"
        f"matmul reads=4 writes=20 weights=6 add emit clip high={0x40C0} x=4:1:1\nend"
    )
    run(program, memories)
    assert (memories.scratchpad[20:24] == _bf16(np.minimum(2 * a + 3 * b + 0.5, 6))).all()


def test_roles_exchanged() -> None:
    """Seven results of eight inputs and a bias: each in its word, other words as they were; by loops over inputs."""
    rng = np.random.default_rng(2)
    vector, weight = rng.integers(-99, 100, 8) / 8, rng.integers(-99, 100, (7, 8)) / 64
    bias = rng.integers(-99, 100, (7, 3)) * [1, 2**-9, 2**-18]
    memories = Memories(_MACHINE, _NONE)
    memories.weights[5:12] = np.c_[_bf16(bias), np.full(7, 0x8000)]
    memories.weights[12:26] = _bf16(weight.reshape(7, 2, 4).transpose(1, 0, 2).reshape(14, 4))
    memories.scratchpad[30:32] = _bf16(vector.reshape(2, 4))
    memories.scratchpad[100:107] = 7
    flags = "exchange bias emit relu"
    run(assemble(f"matmul reads=5 writes=100 weights=30 {flags} x=7:1:1 block=3:7\nend"), memories)
    for output in range(7):
        total = bias[output].sum().astype(np.float32)
        for block in (range(4), range(4, 8)):
            tile = np.float32(0)
            for index in block:
                tile = tile + np.float32(vector[index] * weight[output, index])
            total = total + tile
        expected = [7] * 4
        expected[output % 4] = int(_rounded(np.maximum(total, 0)))
        assert memories.scratchpad[100 + output].tolist() == expected


def test_the_largest_of_all_words() -> None:
    """Of every pattern and some others: as numpy orders numbers, zeros by their sign, and NaN before all."""
    words = np.arange(1 << 16, dtype=np.uint16)
    values = (words.astype(np.uint32) << 16).view(np.float32)
    for other in (0, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0x0001):
        value = np.array([other << 16], np.uint32).view(np.float32)
        most = np.maximum(values, value)
        expected = (most.view(np.uint32) >> 16).astype(np.uint16)
        expected = np.where((values == 0) & (value == 0), words & other, expected)
        expected = np.where(np.isnan(most), 0x7FC0, expected)
        pairs = np.stack([words, np.full_like(words, other)], axis=1)[:, :, np.newaxis]
        for pair in (pairs, pairs[:, ::-1]):
            assert (largest(pair)[:, 0] == expected).all()


def test_relu_and_clip_of_all_words() -> None:
    """Every pattern through a tile of ones on the diagonal: negative numbers and zeros +0, NaN as it is."""
    memories = Memories(_MACHINE, np.zeros((4, 4), np.uint16))
    memories.weights[:4] = _bf16(np.eye(4))[::-1]
    program = assemble(f"matmul reads=0 writes=128 weights=0 emit relu clip high={0x40C0} x=64:1:1\nend")
    for start in range(0, 1 << 16, 64):
        words = np.arange(start, start + 64, dtype=np.uint16)
        memories.scratchpad[:64] = 0
        memories.scratchpad[:64, 0] = words
        run(program, memories)
        values = (words.astype(np.uint32) << 16).view(np.float32)
        expected = np.where(np.isnan(values), 0x7FC0, _rounded(np.clip(values, 0, 6)))
        tiny = (words & 0x7F80) == 0
        assert (memories.scratchpad[128:192, 0] == np.where(tiny | (values <= 0), 0, expected)).all()


def test_load_and_store() -> None:
    memories = Memories(_MACHINE, _NONE, memory=np.arange(60, dtype=np.uint16))
    text = "load rows=8 valid=3 address=5 x=2:2:3 y=2:4:10\nstore rows=10 valid=2 address=50 loads=0\nend"
    run(assemble(text), memories)
    assert memories.scratchpad[8:15:2].tolist() == [[5, 6, 7, 0], [8, 9, 10, 0], [15, 16, 17, 0], [18, 19, 20, 0]]
    assert not memories.scratchpad[9:15:2].any()
    assert memories.memory[49:53].tolist() == [49, 8, 9, 52]


_SUM, _EXCHANGE = "matmul reads=0 writes=99 weights=0", "matmul reads={} writes={} weights={} exchange emit"


@pytest.mark.parametrize(
    ("program", "index", "message"),
    [
        ("end\nload rows=0 valid=5 address=0", 1, "valid must be an integer from 1 to 4, not 5"),
        ("load rows=0 valid=4 address=57", 0, "words moved must be in the memory of 60, not from 57 to 60"),
        ("pool reads=0 writes=250 x=2:1:9", 0, "rows written must be from 0 to 255, not from 250 to 259"),
        ("pool reads=0 writes=9 x=2:-1:9", 0, "rows read must be from 0 to 255, not from -1 to 0"),
        ("pool reads=0 writes=1 x=2:1:9", 0, "rows written must be others than those read"),
        ("matmul reads=0 writes=9 weights=157 emit", 0, "weights must end before row 160, not 161"),
        (f"{_SUM} emit x=65:1:1", 0, "x times y must be at most 64, not 65"),
        (f"{_SUM} add emit", 0, "a matmul with add must have the x times y of the one before, 0, not 1"),
        (_SUM, 1, "sums of 1 rows must be added to by a matmul"),
        (f"{_SUM} relu", 0, "a matmul with relu or clip must have emit"),
        (f"{_SUM} n=2:0:1", 0, "n must be 1 in a matmul with add or without emit, not 2"),
        (f"{_SUM}\n{_SUM} add bias emit", 1, "a matmul must have bias or add, not both"),
        (
            f"{_EXCHANGE.format(150, 99, 0)} x=4:1:1 block=3:4",
            0,
            "weights read must be from 0 to 159, not from 150 to 161",
        ),
        (f"{_EXCHANGE.format(0, 99, 254)} bias block=4", 0, "rows read must be from 0 to 255, not from 254 to 256"),
        (f"{_EXCHANGE.format(0, 9, 7)} block=3", 0, "rows written must be others than those read"),
        (f"{_SUM} exchange x=4", 0, "a matmul with exchange must have emit, no add, and n = 1"),
        (f"{_SUM} exchange emit n=2", 0, "a matmul with exchange must have emit, no add, and n = 1"),
        (f"{_SUM} emit clip high={0x7F81}", 0, "high must be a pattern from 0 to 7F80, not 7F81"),
        (
            "pool reads=0 writes=9 kx=4095:0 ky=4095:0 x=2:0:0",
            0,
            "trips must multiply to at most 16777216, not 33538050",
        ),
    ],
)
def test_refused_programs(program: str, index: int, message: str) -> None:
    commands, memories = assemble(f"{program}\nend"), Memories(_MACHINE, _NONE, memory=np.zeros(60, np.uint16))
    with pytest.raises(ValueError, match=rf"^command {index} \({commands[index].opcode}\): {re.escape(message)}$"):
        run(commands, memories)


def test_a_program_without_end_and_other_memories() -> None:
    with pytest.raises(ValueError, match=r"^a program must end with the command end$"):
        run([], Memories(_MACHINE, _NONE))
    with pytest.raises(ValueError, match=r"^weights must be at most 160 rows of 4, not \(161, 4\)$"):
        Memories(_MACHINE, np.zeros((161, 4), np.uint16))
    with pytest.raises(ValueError, match=r"^scratchpad must be 256 rows of 4, not \(255, 4\)$"):
        Memories(_MACHINE, _NONE, np.zeros((255, 4), np.uint16))
    with pytest.raises(TypeError, match=r"^weights must be patterns in uint16, not float32$"):
        Memories(_MACHINE, np.zeros((0, 4), np.float32))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^rows must be an integer from 1 to 65536, not 0$"):
        AcceleratorConfig(rows=0)
    with pytest.raises(ValueError, match=r"^depth must be a power of two from 2 to 65536, not 3$"):
        AcceleratorConfig(depth=3)
