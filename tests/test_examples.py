"""The designs of the how-to on embedding are run, and so are its commands."""

import gc
import shlex
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from amaranth.hdl import Value

from openmxu.cli import frame
from openmxu.export.verilog import to_verilog
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16
from openmxu.unit.status import Error
from openmxu_sim import golden
from openmxu_sim.cosim.runner import BenchFailedError, simulate
from openmxu_sim.cosim.simulators import find_simulator
from openmxu_sim.cosim.words import pack, unpack
from openmxu_sim.golden.formats import Bits
from openmxu_sim.operands import vectors
from openmxu_sim.operands.stimulus import Stalls

from .clocked import clocked
from .conftest import load_file, slow
from .linters import lint

_DOCS = Path(__file__).parent.parent / "docs"
DenseLayer = load_file(_DOCS / "examples" / "dense_layer.py").DenseLayer
_SQUARE = (_DOCS / "examples" / "square.v").read_text()


class Played(NamedTuple):
    """What a layer gave: rows of words, their ``last``, and the cycles in which rows went in and came out."""

    words: Bits
    lasts: list[int]
    taken: list[int]
    given: list[int]


def play(layer: Any, packets: Sequence[Bits], stalls: Stalls | None = None, error: Error = Error.NONE) -> Played:
    """Packets of rows through a layer. An offered row stays until it is taken; else the payload is garbage."""
    rows, lasts = np.concatenate(packets), [row + 1 == len(packet) for packet in packets for row in range(len(packet))]
    payload, result = Value.cast(layer.i.payload), Value.cast(layer.o.payload)
    width, lanes = layer.config.result.width, len(layer.o.payload.data)
    results, taken, given = list[int](), list[int](), list[int]()

    def waits(stream: int, cycle: int) -> bool:
        return stalls is not None and stalls.waits(stream, cycle)

    async def send(ctx: Any) -> None:
        cycle = 0
        for words, last in zip(pack(rows, layer.config.source.width), lasts, strict=True):
            ctx.set(layer.i.valid, 0)
            ctx.set(payload, -1)
            while waits(1, cycle):
                await ctx.tick()
                cycle += 1
            ctx.set(layer.i.valid, 1)
            ctx.set(payload, words | last << (layer.config.source.width * rows.shape[1]))
            ready = False
            while not ready:
                _, _, ready = await ctx.tick().sample(layer.i.ready)
                cycle += 1
            taken.append(cycle - 1)
        ctx.set(layer.i.valid, 0)

    async def receive(ctx: Any) -> None:
        waiting = None
        for cycle in range(40 * (len(rows) + layer.latency)):
            ready = not waits(2, cycle)
            ctx.set(layer.o.ready, ready)
            _, _, valid, bits = await ctx.tick().sample(layer.o.valid, result)
            assert waiting is None or (valid, bits) == (1, waiting), f"an offered result changed, cycle {cycle}"
            waiting = bits if valid and not ready else None
            if valid and ready:
                results.append(bits)
                given.append(cycle)
            if len(results) == len(rows):
                assert Error(ctx.get(layer.o_error)) is error
                return
        raise TimeoutError(f"{len(results)} of {len(rows)} results in time, {stalls}")

    clocked(layer, receive, send)
    return Played(unpack(results, width, lanes), [bits >> width * lanes for bits in results], taken, given)


@pytest.mark.parametrize(
    ("config", "k", "n", "seed"),
    [
        slow(MxuConfig(rows=3, columns=2, depth=4), 2, 1, 5),
        slow(MxuConfig(rows=2, columns=2, depth=4, stages=6), 2, 2, 2),
        slow(MxuConfig(rows=2, columns=2, depth=8, source=BF16, result=BF16), 1, 2, 3),
        (MxuConfig(rows=1, columns=1, depth=2, splitter=True), 1, 1, 4),
    ],
    ids=["padded", "pipelined", "bf16", "smallest"],
)
def test_dense_layer(config: MxuConfig, k: int, n: int, seed: int) -> None:
    """Bit for bit, with packets of all lengths and stalls on both sides."""
    generator = np.random.default_rng(seed)
    source = config.source.name
    activations = vectors.matrix((160, k), source, seed)
    activations[::4] = generator.choice(vectors.corners(source, ties=False), size=(40, k))
    weights = vectors.matrix((n, k), source, seed).T
    matrices = golden.from_bits(activations, source), golden.from_bits(weights, source)
    product: Any = golden.matmul(*matrices, rows=config.rows, result=config.result.name)
    with np.errstate(invalid="ignore"):
        kinds = [np.isnan(product), product == np.inf, product == -np.inf, (product < 0) & np.isfinite(product)]
    assert all(kind.any() for kind in kinds)

    packets = np.split(activations, np.cumsum(generator.integers(1, config.depth + 1, size=80)))
    within = (np.split(packet, range(config.depth, len(packet), config.depth)) for packet in packets)
    packets = [part for parts in within for part in parts if len(part)]
    played = play(DenseLayer(config, weights.tolist()), packets, Stalls(seed))
    patterns = golden.to_bits(product)
    expected = np.where((patterns >> 31 == 1) & ~kinds[0], 0, patterns)  # +0 for -0, too; NaN stays NaN
    np.testing.assert_array_equal(played.words << np.uint32(32 - config.result.width), expected)
    assert played.lasts == [int(row + 1 == len(packet)) for packet in packets for row in range(len(packet))]


def test_relu_of_negative_zero() -> None:
    """A small negative sum is flushed to -0, and that becomes +0."""
    one, weights = 0x3F800000, np.array([[0x00800000], [0x80C00000]], dtype=np.uint32)
    activations = np.full((1, 2), one, dtype=np.uint32)
    product: Any = golden.matmul(activations.view(np.float32), weights.view(np.float32), rows=2)
    assert golden.to_bits(product).tolist() == [[0x80000000]]
    layer = DenseLayer(MxuConfig(rows=2, columns=1, depth=2), weights.tolist())
    assert play(layer, [activations]).words.tolist() == [[0]]


def test_latency_and_throughput_of_the_dense_layer_and_a_packet_that_is_too_long() -> None:
    """They are what its docstring says, once the first weights are loaded."""
    config = MxuConfig(rows=2, columns=3, depth=16, stages=3)
    layer = DenseLayer(config, [[0x3F800000] * 2] * 2)
    assert config.depth == layer.latency
    rows = np.zeros((config.shortest_tile, 2), dtype=np.uint32)
    played = play(layer, [rows] * 8)
    taken, given = (np.array(cycles)[2 * len(rows) :] for cycles in (played.taken, played.given))
    np.testing.assert_array_equal(given - taken, layer.latency)
    np.testing.assert_array_equal(np.diff(given), 1)
    layer = DenseLayer(MxuConfig(rows=1, columns=1, depth=2), [[0x3F800000]])
    play(layer, [np.zeros((3, 1), dtype=np.uint32)], error=Error.TILE_LONG)


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")  # what is refused goes unused
@pytest.mark.parametrize("shape", [(0, 1), (1, 0), (3, 1), (1, 3)])
def test_weights_that_do_not_fit(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"weights must be 1 to 2 rows of 1 to 2 words each, not \["):
        DenseLayer(MxuConfig(rows=2, columns=2, depth=2), np.zeros(shape, dtype=np.uint32).tolist())
    gc.collect()  # now, while the warning is ignored


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's commands have been run, the one that square.v names among them."""
    folder = tmp_path_factory.mktemp("exported")
    page = (_DOCS / "how-to" / "embed.md").read_text()
    commands = [line[2:] for line in page.splitlines() if line.startswith("$ openmxu ")]
    assert next(line[2:].strip() for line in _SQUARE.splitlines() if " openmxu " in line) in commands
    with chdir(folder):
        for command in commands:
            assert frame.main(shlex.split(command)[1:]) == 0, command
    return folder


def test_the_examples_are_lint_clean(exported: Path, tmp_path: Path) -> None:
    """And so is the unit on a bus; the page's commands write what helps to use them."""
    layer = DenseLayer(MxuConfig(rows=3, columns=2, depth=4), [[0x3F800000]] * 2)
    texts = {"dense_layer": to_verilog(layer, name="dense_layer"), "square": (exported / "mxu.v").read_text() + _SQUARE}
    for top, text in texts.items():
        path = tmp_path / f"{top}.v"
        path.write_text(text)
        lint(path, top)
    lint(exported / "mxu_axi.v", "mxu_axi")
    assert "  .weights__payload(weights__payload)" in (exported / "instance.v").read_text()
    assert "- mxu.v" in (exported / "mxu.core").read_text()


def run_square(exported: Path, simulator: str, square: str = _SQUARE) -> None:
    verilog, path = (exported / "mxu.v").read_text() + square, {"PYTHONPATH": str(Path(__file__).parent)}
    simulate(verilog, "square", "examples_bench", simulator=simulator, timeout=60, environment=path)


def test_square(exported: Path, simulator: str) -> None:
    run_square(exported, simulator)


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("weights_sent[0] ? row_0 : row_1", "weights_sent[0] ? row_1 : row_0", "y: beat 0, lane 0: got"),
        slow("weights_last = weights_sent[0]", "weights_last = 1'b0", "error 2"),
    ],
    ids=["rows", "last"],
)
def test_mistakes_in_square_are_seen(exported: Path, right: str, wrong: str, complaint: str) -> None:
    """By the bench, or by the unit itself, which shows ``WEIGHTS_LONG``."""
    quickest = next((name for name in ("icarus", "verilator") if find_simulator(name) is not None), None)
    if quickest is None:
        pytest.skip("no simulator is installed")
    assert _SQUARE.count(right) == 1
    with pytest.raises(BenchFailedError, match=complaint):
        run_square(exported, quickest, _SQUARE.replace(right, wrong))
