"""The operand generators reach what they claim to reach, and repeat themselves; parts are the golden model's."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openmxu.spec.config import MxuConfig
from openmxu.spec.passes import PASSES, Part
from openmxu_sim import golden
from openmxu_sim.golden import FORMATS, find_format, passes
from openmxu_sim.golden.formats import decode, is_nan
from openmxu_sim.operands.parts import part_of
from openmxu_sim.operands.stimulus import Stalls, Traffic, stimulus
from openmxu_sim.operands.vectors import corners, matrix, meeting, operands, pairs

from ...bits import same_bits

ALL_FORMATS = [*FORMATS, "e2f1", "e2f23", "e6f9", "e8f1", "e8f23"]

Bits = npt.NDArray[np.uint32]


def share(condition: Any) -> float:
    return float(np.mean(condition))


@pytest.mark.parametrize("name", ALL_FORMATS)
def test_corners(name: str) -> None:
    fmt = find_format(name)
    got = corners(name)
    assert got.dtype == np.uint32
    assert np.array_equal(got, np.unique(got))
    assert int(got[-1]) < 1 << fmt.width
    smallest_normal, one = 1 << fmt.fraction_width, fmt.bias << fmt.fraction_width
    largest = fmt.exponent_mask - 1 if fmt.has_infinity else fmt.canonical_nan - 1
    landmarks = {0, 1, smallest_normal - 1, smallest_normal, smallest_normal + 1, one - 1, one, one + 1}
    landmarks |= {largest, fmt.exponent_mask, fmt.canonical_nan, fmt.sign_bit - 1}
    if fmt.fraction_width > 1:
        landmarks.add(fmt.exponent_mask + 1)  # in IEEE-like formats a signalling NaN
    assert landmarks | {each | fmt.sign_bit for each in landmarks} <= set(got.tolist())
    if name == "fp32":  # ties and their neighbours in the conversion, above even and odd bf16 numbers
        assert {0x3F807FFF, 0x3F808000, 0x3F808001, 0x3FFF8000, 0x007F8000} <= set(got.tolist())


@pytest.mark.parametrize("name", ALL_FORMATS)
def test_operands_have_every_sort(name: str) -> None:
    fmt = find_format(name)
    got = operands(name, 4000, 70)
    assert got.shape == (4000,)
    values = decode(got, fmt)
    assert share(np.isnan(values)) > 0.005
    # Of wide formats only the landmarks are zeros and infinities, one in 300 each.
    assert share(values == 0) > 0.002
    assert share((values != 0) & (np.abs(values) < fmt.min_normal)) > 0.02
    assert share(np.isinf(values)) > 0.002 or not fmt.has_infinity
    assert share((got & fmt.sign_bit) != 0) == pytest.approx(0.5, abs=0.05)
    ones = np.bitwise_count(got & fmt.fraction_mask)
    assert share(ones <= 1) > 0.03
    assert share(ones >= fmt.fraction_width - 1) > 0.03


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16"])
def test_pairs_meet_where_it_matters(name: str) -> None:
    """Near exponents, cancellation, ties, and products at both thresholds, each in a share of the pairs."""
    fmt = find_format(name)
    a, b = pairs(name, 20_000, 71)
    assert a.dtype == b.dtype == np.uint32
    assert max(int(a.max()), int(b.max())) < 1 << fmt.width
    x, y = decode(a, fmt), decode(b, fmt)
    finite = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
    assert share(finite) > 0.7
    a, b, x, y = (each[finite] for each in (a, b, x, y))
    first, second = ((each & fmt.exponent_mask).astype(np.int64) >> fmt.fraction_width for each in (a, b))
    assert share(np.abs(first - second) <= fmt.fraction_width + 3) > 0.3
    assert share(x == -y) > 0.03
    assert share((x != -y) & (np.abs(x + y) < np.abs(x) / 8)) > 0.02

    total = np.abs(x + y)
    ulp = 2.0 ** (np.maximum(np.frexp(total)[1] - 1, fmt.min_exponent) - fmt.fraction_width)
    remainder = np.mod(total, ulp)
    assert share(remainder == ulp / 2) > 0.005
    assert share((remainder != 0) & (remainder != ulp / 2)) > 0.1

    product = np.abs(x * y)
    assert share((product > fmt.min_normal / 8) & (product < fmt.min_normal * 8)) > 0.01
    assert share((product > fmt.max_finite / 8) & (product < fmt.max_finite * 8)) > 0.01


@pytest.mark.parametrize(
    "generate",
    [
        operands,
        lambda fmt, size, seed: np.stack(pairs(fmt, size, seed)),
        lambda fmt, size, seed: matrix((size, 11), fmt, seed),
        lambda fmt, size, seed: matrix((size, 11), fmt, seed, kind="uniform"),
        lambda fmt, size, seed: matrix((size, 11), fmt, seed, kind="normal"),
    ],
    ids=["operands", "pairs", "all", "uniform", "normal"],
)
def test_generators(generate: Callable[[str, int, int], Bits]) -> None:
    first, again, other = (generate("fp32", 100, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    for name in ALL_FORMATS:
        got = generate(name, 4000, 72)
        assert got.dtype == np.uint32
        assert int(got.max()) < 1 << find_format(name).width, name


def test_shapes() -> None:
    assert [each.shape for each in (operands("bf16", 0, 0), *pairs("bf16", 0, 0))] == [(0,)] * 3
    for kind, shape in product(("all", "uniform", "normal"), ((9, 11), (0, 3), (3, 0))):
        assert matrix(shape, "bf16", 0, kind=kind).shape == shape


@pytest.mark.parametrize("size", [32, 96])
def test_products_of_mixed_matrices_have_every_sort_of_result(size: int) -> None:
    fmt = FORMATS["fp32"]
    drawn = [golden.from_bits(matrix((size, size), "fp32", seed)) for seed in range(20)]
    products = [golden.matmul(a, b.T, rows=32) for a, b in zip(drawn[::2], drawn[1::2], strict=True)]
    results = golden.to_bits(np.array(products))
    values = decode(results, fmt)
    assert share(np.isfinite(values)) > 0.8
    assert share(is_nan(results, fmt)) > 0.01
    assert min(share(values == np.inf), share(values == -np.inf)) > 0.005
    assert {0x00000000, 0x80000000} <= set(results.flat)


def test_the_order_of_summation_shows_in_mixed_matrices() -> None:
    """A quarter of the results differs when a tile is cut elsewhere: a wrong order cannot hide."""
    a, b = (golden.from_bits(matrix((48, 96), "fp32", seed)) for seed in (73, 74))
    whole, cut = (golden.to_bits(golden.matmul(a, b.T, rows=rows)) for rows in (96, 32))
    assert share(whole != cut) > 0.25


def test_kinds_of_matrices() -> None:
    """Normal numbers; patterns of which each bit is set in half."""
    for name in ("fp32", "bf16", "fp16"):
        values = decode(matrix((200, 200), name, 75, kind="normal"), find_format(name))
        assert (np.mean(values), np.var(values)) == pytest.approx((0, 1), abs=0.02)
    bits = matrix((200, 200), "bf16", 76, kind="uniform")
    assert [share((bits >> position) & 1) for position in range(16)] == pytest.approx([0.5] * 16, abs=0.02)


FORMAT = "fmt must be one of .*, not 'fp64'"
COUNT = "count must be an integer >= 0, not"
KIND = "kind must be one of 'all', 'uniform' or 'normal', not 'x'"
WRONG: Any = 1.5
SHAPE = "shape must be two integers >= 0, not"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        *((partial(generate, "fp32", -1, 0), ValueError, f"{COUNT} -1") for generate in (operands, pairs)),
        *((partial(generate, "fp32", WRONG, 0), TypeError, rf"{COUNT} 1\.5") for generate in (operands, pairs)),
        *((partial(generate, "fp64", 1, 0), ValueError, FORMAT) for generate in (operands, pairs)),
        (partial(corners, "fp64"), ValueError, FORMAT),
        (partial(matrix, (1, 1), "fp64", 0), ValueError, FORMAT),
        (partial(matrix, (1, 1), "fp32", 0, kind="x"), ValueError, KIND),
        (partial(matrix, (1, -1), "fp32", 0), ValueError, rf"{SHAPE} \(1, -1\)"),
        (partial(matrix, (1, 2, 3), "fp32", 0), ValueError, rf"{SHAPE} \(1, 2, 3\)"),  # type: ignore[arg-type]
        (partial(matrix, (WRONG, 2), "fp32", 0), TypeError, rf"{SHAPE} \(1\.5, 2\)"),
    ],
)
def test_messages(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}$"):
        call()


def test_terms_meet() -> None:
    """In each row those with one column of the weights, at any distance, and at both ends of the range."""
    weights = matrix((4, 3), "bf16", 3, kind="normal")
    rows = meeting("bf16", weights, 1000, 5)
    assert rows.shape == (1000, 4)
    exponents = (rows >> 7 & 0xFF).astype(int)[:, :, np.newaxis] + (weights >> 7 & 0xFF).astype(int) - 127
    normal = (exponents > 0) & (exponents < 255)
    assert normal.any(axis=(1, 2)).mean() > 0.9
    spreads = (exponents.max(axis=1) - exponents.min(axis=1)).min(axis=1)
    assert np.median(spreads) < 12
    assert len(set(spreads.tolist())) > 24
    assert exponents.min() < 3
    assert exponents.max() > 252
    alike = ((rows & 0x7F) == (rows[:, :1] & 0x7F)).all(axis=1)
    assert 0.4 < alike.mean() < 0.6


LETTERS = dict(zip(Part, "xhrml", strict=True))


@pytest.mark.parametrize("part", Part)
def test_after_conversion_they_are_the_golden_ones(part: Part, mode: str) -> None:
    spread = np.arange(0, 1 << 32, 65521, dtype=np.uint64).astype(np.uint32)
    bits = np.concatenate([corners("fp32"), operands("fp32", 20000, seed=1), spread])
    got = golden.convert(part_of(bits, part), "fp32", "bf16", subnormals=mode)
    same_bits(got, passes.split(bits, LETTERS[part], subnormals=mode), bits, fmt="bf16", note=f"{part}, {mode}")


def test_the_same_passes_in_the_same_order() -> None:
    assert {name: tuple((LETTERS[a], LETTERS[b]) for a, b in pairs) for name, pairs in PASSES.items()} == passes.PASSES


# Beats, stalls, and both ends of the streams


_A, _B = np.array([[1, 2, 3], [4, 5, 6]], np.uint32), np.array([[7, 8], [9, 10], [11, 12]], np.uint32)
_GIVEN = stimulus(MxuConfig(rows=2, columns=3, depth=4), _A, _B)


def test_beats_and_padding() -> None:
    neg = 0x80000000
    blocks = zip(*(block[:3] for block in _GIVEN.blocks()), strict=True)
    weights, activations, marks = (np.concatenate(parts) for parts in blocks)
    assert weights.tolist() == [[9, 10, neg], [7, 8, neg], [neg, neg, neg], [11, 12, neg]]
    assert activations.tolist() == [[1, 2], [4, 5], [3, 0], [6, 0]]
    first, last, add, clear, emit, keep = marks.T.tolist()
    assert (first, last, add, clear, emit) == ([1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1], [0] * 4, [0, 0, 1, 1])
    assert keep == [0] * 4
    assert _GIVEN.results == 2
    first, second, *_ = _GIVEN.weight_payloads()
    assert (first, second >> 96) == (9 | 10 << 32 | neg << 64, 1)  # the second is the last
    first, _, _, last = _GIVEN.activation_payloads()
    assert (first, last) == (1 | 2 << 32 | 0b00001 << 64, 6 | 0b10110 << 64)


def test_stalls_are_seeded_and_end() -> None:
    pattern, again, other = (
        [[stalls.waits(stream, cycle) for cycle in range(9000)] for stream in range(3)]
        for stalls in (Stalls(5), Stalls(5), Stalls(6))
    )
    assert pattern == again != other
    assert all(any(stream) and not all(stream[:4096]) for stream in pattern)


def test_a_source_never_takes_back_a_beat() -> None:
    traffic = Traffic(_GIVEN, Stalls(1))
    offered = None
    for cycle in range(300):
        before = offered
        offered = traffic.weights
        if before is not None:
            assert offered == before
        take = cycle % 7 == 6
        traffic.advance(take, True, 0 if cycle % 50 == 0 else None)
        offered = None if take else offered


@pytest.mark.parametrize(
    ("columns", "m", "k", "n", "most"),
    [
        (1, 8, 4096, 4096, "4194304 tiles on a clocked engine, not 16777216: 8x4096x4096 on 1x1"),
        (65536, 100000, 1, 1, "2147483648 words of results on a clocked engine, not 6553600000: 100000x1x1 on 1x65536"),
    ],
)
def test_products_that_do_not_fit_in_memory(columns: int, m: int, k: int, n: int, most: str) -> None:
    a, b = (np.broadcast_to(np.uint32(0), shape) for shape in ((m, k), (k, n)))
    with pytest.raises(ValueError, match=f"^the product must have at most {most}$"):
        stimulus(MxuConfig(rows=1, columns=columns), a, b)
