"""Multiplication and addition against Berkeley SoftFloat, numpy and cases by hand."""

import ctypes
import platform
import sys
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import softfloatpy as softfloat

from openmxu_sim import golden
from openmxu_sim.golden import FORMATS
from openmxu_sim.golden.formats import is_nan
from openmxu_sim.operands.vectors import canonical, corners, matrix, pairs

from ...bits import same_bits

Bits = npt.NDArray[np.uint32]

SOFTFLOAT: dict[tuple[str, str], tuple[Any, Callable[[Any, Any], Any]]] = {
    ("fp32", "add"): (softfloat.Float32, softfloat.f32_add),
    ("fp32", "multiply"): (softfloat.Float32, softfloat.f32_mul),
    ("fp16", "add"): (softfloat.Float16, softfloat.f16_add),
    ("fp16", "multiply"): (softfloat.Float16, softfloat.f16_mul),
}


def by_softfloat(fmt: str, operation: str, a: Bits, b: Bits) -> Bits:
    """Operate on patterns of fp32 or fp16 by SoftFloat; NaNs become the canonical one."""
    kind, function = SOFTFLOAT[fmt, operation]
    size = FORMATS[fmt].width // 8
    results = [
        int.from_bytes(
            function(kind.from_bytes(x.to_bytes(size, "big")), kind.from_bytes(y.to_bytes(size, "big"))).to_bytes(),
            "big",
        )
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    return canonical(np.array(results, dtype=np.uint32), fmt)


def flushed(bits: Bits, fmt: str) -> Bits:
    """Replace every subnormal number by a zero of its sign."""
    found = FORMATS[fmt]
    return np.where((bits & found.exponent_mask) == 0, bits & found.sign_bit, bits)


def crossed(fmt: str) -> tuple[Bits, Bits]:
    """Every corner with every corner."""
    edges = corners(fmt)
    return np.repeat(edges, len(edges)), np.tile(edges, len(edges))


def mixed(fmt: str, count: int, seed: int) -> tuple[Bits, Bits]:
    """Biased pairs and crossed corners, not more than `count` of each."""
    a, b = pairs(fmt, count, seed)
    corner_a, corner_b = crossed(fmt)
    if len(corner_a) > count:
        chosen = np.random.default_rng(seed).choice(len(corner_a), size=count, replace=False)
        corner_a, corner_b = corner_a[chosen], corner_b[chosen]
    return np.concatenate([a, corner_a]), np.concatenate([b, corner_b])


@pytest.mark.parametrize("fmt", ["fp32", "fp16"])
def test_add_agrees_with_softfloat(fmt: str) -> None:
    """Both modes. A sum below the smallest normal number is exact, so flushing it afterwards is right."""
    a, b = mixed(fmt, 60_000, 40)
    theirs = by_softfloat(fmt, "add", a, b)
    same_bits(golden.add(a, b, fmt, subnormals="ieee"), theirs, a, b, fmt=fmt, operand=fmt, note="ieee, seed 40")
    theirs = flushed(by_softfloat(fmt, "add", flushed(a, fmt), flushed(b, fmt)), fmt)
    same_bits(golden.add(a, b, fmt), theirs, a, b, fmt=fmt, operand=fmt, note="flush, seed 40")


@pytest.mark.parametrize("fmt", ["fp32", "fp16"])
def test_multiply_agrees_with_softfloat(fmt: str) -> None:
    """The ieee mode; flush mode decides on the exact product, which SoftFloat does not show."""
    a, b = mixed(fmt, 60_000, 41)
    theirs = by_softfloat(fmt, "multiply", a, b)
    got = golden.multiply(a, b, fmt, fmt, subnormals="ieee")
    same_bits(got, theirs, a, b, fmt=fmt, operand=fmt, note="ieee, seed 41")


def test_bf16_products_agree_with_softfloat() -> None:
    """Both modes: the product of two bf16 numbers is exact below 2**-126 too, unless it is below 2**-149."""
    a, b = mixed("bf16", 60_000, 42)
    wide_a, wide_b = a << np.uint32(16), b << np.uint32(16)
    theirs = by_softfloat("fp32", "multiply", wide_a, wide_b)
    got = golden.multiply(a, b, subnormals="ieee")
    same_bits(got, theirs, a, b, operand="bf16", note="ieee, seed 42")
    theirs = by_softfloat("fp32", "multiply", flushed(wide_a, "fp32"), flushed(wide_b, "fp32"))
    theirs = flushed(theirs, "fp32")
    same_bits(golden.multiply(a, b), theirs, a, b, operand="bf16", note="flush, seed 42")


def test_agrees_with_numpy() -> None:
    """More pairs than SoftFloat does in the time: fp32 and fp16, and all corners of each."""
    types: dict[str, tuple[Any, Any]] = {"fp32": (np.uint32, np.float32), "fp16": (np.uint16, np.float16)}
    for fmt, (unsigned, floating) in types.items():
        a, b = (np.concatenate(both) for both in zip(pairs(fmt, 400_000, 43), crossed(fmt), strict=True))
        x, y = (each.astype(unsigned).view(floating) for each in (a, b))
        with np.errstate(all="ignore"):
            total, product = ((x + y).view(unsigned), (x * y).view(unsigned))
        expected = canonical(total.astype(np.uint32), fmt)
        got = golden.add(a, b, fmt, subnormals="ieee")
        same_bits(got, expected, a, b, fmt=fmt, operand=fmt, note="add, seed 43")
        expected = canonical(product.astype(np.uint32), fmt)
        got = golden.multiply(a, b, fmt, fmt, subnormals="ieee")
        same_bits(got, expected, a, b, fmt=fmt, operand=fmt, note="multiply, seed 43")


@pytest.mark.parametrize(
    ("operand", "unsigned", "dtype"),
    [
        ("bf16", np.uint16, ml_dtypes.bfloat16),
        ("fp16", np.uint16, np.float16),
        ("fp8_e5m2", np.uint8, ml_dtypes.float8_e5m2),
        ("fp8_e4m3", np.uint8, ml_dtypes.float8_e4m3fn),
    ],
)
def test_products_in_fp32_agree_with_numpy(operand: str, unsigned: Any, dtype: Any) -> None:
    """Every operand format of the unit, decoded by ml_dtypes and multiplied by numpy."""
    a, b = (np.concatenate(both) for both in zip(pairs(operand, 300_000, 44), crossed(operand), strict=True))
    with np.errstate(all="ignore"):
        x, y = (each.astype(unsigned).view(dtype).astype(np.float32) for each in (a, b))
        expected = canonical((x * y).view(np.uint32), "fp32")
    got = golden.multiply(a, b, operand, "fp32", subnormals="ieee")
    same_bits(got, expected, a, b, operand=operand, note="seed 44")


@pytest.mark.parametrize(
    ("a", "b", "flush", "ieee"),
    [
        (0x3F80, 0x3F80, 0x3F800000, 0x3F800000),
        (0x3FFF, 0x3FFF, 0x407E0100, 0x407E0100),  # 255 × 255: all sixteen bits of the product
        (0xBF80, 0x0000, 0x80000000, 0x80000000),  # the sign of a zero is the exclusive or as well
        (0x8000, 0x8000, 0x00000000, 0x00000000),
        (0x7F80, 0x0000, 0x7FC00000, 0x7FC00000),
        (0x8000, 0xFF80, 0x7FC00000, 0x7FC00000),
        (0x7F80, 0xBF80, 0xFF800000, 0xFF800000),
        (0xFF81, 0x3F80, 0x7FC00000, 0x7FC00000),  # sign and payload of a NaN are not kept
        (0x7F80, 0x0001, 0x7FC00000, 0x7F800000),  # a flushed operand counts as zero, here times infinity
        (0x8001, 0x3F80, 0x80000000, 0x80010000),
        (0x5F80, 0x5F80, 0x7F800000, 0x7F800000),  # 2**64 × 2**64
        (0x5F80, 0xDF00, 0xFF000000, 0xFF000000),  # -(2**127)
        (0x7F7F, 0x7F7F, 0x7F800000, 0x7F800000),
        (0x2000, 0x2000, 0x00800000, 0x00800000),  # 2**-63 × 2**-63
        (0x2000, 0x1F80, 0x00000000, 0x00400000),
        (0x2000, 0x9FFF, 0x80000000, 0x807F8000),
        (0x1A80, 0x1A80, 0x00000000, 0x00000002),  # 2**-74 × 2**-74
        (0x0080, 0x0080, 0x00000000, 0x00000000),
        (0x0080, 0x8080, 0x80000000, 0x80000000),
        (0x1A80, 0x1880, 0x00000000, 0x00000000),  # 2**-152: less than half of 2**-149
        (0x1A80, 0x1980, 0x00000000, 0x00000000),  # 2**-150: a tie, down to even
        (0x1A80, 0x1981, 0x00000000, 0x00000001),
    ],
)
def test_multiply_by_hand(a: int, b: int, flush: int, ieee: int) -> None:
    """bf16 × bf16 in fp32, which are the defaults, in either order."""
    assert golden.multiply(a, b) == golden.multiply(b, a) == flush
    assert golden.multiply(a, b, "bf16", "fp32", subnormals="ieee") == ieee


@pytest.mark.parametrize(
    ("operand", "result", "a", "b", "flush", "ieee"),
    [
        # Rounds up to the smallest normal number in ieee mode, is below it before rounding in flush mode.
        ("fp32", "fp32", 0x3F7FFFFF, 0x00800000, 0x00000000, 0x00800000),
        ("fp32", "fp32", 0xBF7FFFFF, 0x00800000, 0x80000000, 0x80800000),
        ("bf16", "bf16", 0x3F7F, 0x0080, 0x0000, 0x0080),
        ("fp16", "fp16", 0x3BFF, 0x0400, 0x0000, 0x0400),
        # E4M3: 448 + an eighth of its ulp stays, more than the tie is the NaN with the sign of the product.
        ("fp8_e4m3", "fp8_e4m3", 0x7E, 0x38, 0x7E, 0x7E),
        ("fp8_e4m3", "fp8_e4m3", 0x7E, 0x39, 0x7F, 0x7F),
        ("fp8_e4m3", "fp8_e4m3", 0xFE, 0x40, 0xFF, 0xFF),
        ("fp8_e4m3", "fp8_e4m3", 0xFF, 0x38, 0x7F, 0x7F),
        ("fp8_e4m3", "fp32", 0x7E, 0x7E, 0x48440000, 0x48440000),
        ("fp8_e4m3", "bf16", 0x7F, 0x38, 0x7FC0, 0x7FC0),
    ],
)
def test_multiply_other_formats_by_hand(operand: str, result: str, *, a: int, b: int, flush: int, ieee: int) -> None:
    """Underflow decided before rounding, and the format without infinity."""
    assert golden.multiply(a, b, operand, result) == flush
    assert golden.multiply(a, b, operand, result, subnormals="ieee") == ieee


@pytest.mark.parametrize(
    ("a", "b", "flush", "ieee"),
    [
        (0x3F800000, 0x3F800000, 0x40000000, 0x40000000),
        (0x3F800000, 0xBF800000, 0x00000000, 0x00000000),  # exact cancellation
        (0x80000000, 0x80000000, 0x80000000, 0x80000000),
        (0x80000000, 0x00000000, 0x00000000, 0x00000000),
        (0x3F800000, 0x33800000, 0x3F800000, 0x3F800000),  # 1 + 2**-24: a tie, down to even
        (0x3F800000, 0x33800001, 0x3F800001, 0x3F800001),
        (0x3F800001, 0x33800000, 0x3F800002, 0x3F800002),
        (0x3F800000, 0x00800000, 0x3F800000, 0x3F800000),
        (0xBF800000, 0x33000000, 0xBF800000, 0xBF800000),  # 1 - 2**-25: a tie between binades
        (0xBF800000, 0x33000001, 0xBF7FFFFF, 0xBF7FFFFF),
        (0x7F7FFFFF, 0x73000000, 0x7F800000, 0x7F800000),  # half an ulp of the largest number
        (0x7F7FFFFF, 0x72FFFFFF, 0x7F7FFFFF, 0x7F7FFFFF),
        (0x7F7FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F7FFFFF),
        (0xFF7FFFFF, 0xFF7FFFFF, 0xFF800000, 0xFF800000),
        (0x7F800000, 0x7F800000, 0x7F800000, 0x7F800000),
        (0x7F800000, 0xFF800000, 0x7FC00000, 0x7FC00000),
        (0xFF800000, 0x3F800000, 0xFF800000, 0xFF800000),
        (0xFF800001, 0x3F800000, 0x7FC00000, 0x7FC00000),
        (0x00800001, 0x80800000, 0x00000000, 0x00000001),  # a subnormal sum of normal numbers
        (0x80800001, 0x00800000, 0x80000000, 0x80000001),
        (0x00400000, 0x00400000, 0x00000000, 0x00800000),  # subnormal operands
        (0x80000001, 0x80000001, 0x80000000, 0x80000002),
        (0x80000001, 0x00000000, 0x00000000, 0x80000001),
        (0x00800000, 0x807FFFFF, 0x00800000, 0x00000001),
        # Near a tie no longer, but more bits than binary64 has.
        (0x3F800000, 0x30FFFFFF, 0x3F800000, 0x3F800000),
        (0x3F800000, 0xB0FFFFFF, 0x3F800000, 0x3F800000),
        (0x3F800000, 0x80800001, 0x3F800000, 0x3F800000),
    ],
)
def test_add_by_hand(a: int, b: int, flush: int, ieee: int) -> None:
    """fp32, which is the default, in either order."""
    assert golden.add(a, b) == golden.add(b, a) == flush
    assert golden.add(a, b, "fp32", subnormals="ieee") == golden.add(b, a, subnormals="ieee") == ieee


def test_operations_commute() -> None:
    """Bit for bit, NaNs too, as all of them are canonical."""
    for fmt in ("fp32", "fp8_e4m3"):
        a, b = pairs(fmt, 50_000, 45)
        for mode in ("flush", "ieee"):
            assert np.array_equal(golden.add(a, b, fmt, subnormals=mode), golden.add(b, a, fmt, subnormals=mode))
            assert np.array_equal(
                golden.multiply(a, b, fmt, "fp32", subnormals=mode), golden.multiply(b, a, fmt, "fp32", subnormals=mode)
            )


def test_negative_zero_is_the_neutral_element() -> None:
    """What a padding row relies on: adding -0 changes no number, -0 included."""
    numbers = corners("fp32")
    numbers = numbers[~is_nan(numbers, FORMATS["fp32"])]
    assert np.array_equal(golden.add(numbers, 0x80000000, subnormals="ieee"), numbers)
    assert np.array_equal(golden.add(numbers, 0x80000000), flushed(numbers, "fp32"))
    assert golden.multiply(0x0000, 0x8000) == 0x80000000


def test_operands_broadcast() -> None:
    """As in numpy, scalars included."""
    column = np.array([[0x3F80], [0x4000]], dtype=np.uint16)
    row = np.array([0x3F80, 0x4000, 0x4040], dtype=np.uint32)
    assert golden.multiply(column, row).tolist() == [
        [0x3F800000, 0x40000000, 0x40400000],
        [0x40000000, 0x40800000, 0x40C00000],
    ]
    assert golden.add(row, 0, "bf16").tolist() == row.tolist()
    assert golden.add(0, 0).shape == ()


@pytest.fixture
def flushing_host() -> Iterator[None]:
    """A process whose FPU flushes: MXCSR with FTZ and DAZ, as -ffast-math libraries leave it."""
    if not (sys.platform == "linux" and platform.machine() == "x86_64"):
        pytest.skip("sets MXCSR through the fenv_t of glibc on x86-64")
    libm = ctypes.CDLL("libm.so.6")
    environment = (ctypes.c_uint32 * 8)()
    libm.fegetenv(environment)
    before = environment[7]
    environment[7] = before | 0x8040
    libm.fesetenv(environment)
    yield
    environment[7] = before
    libm.fesetenv(environment)


def everything_ieee() -> list[Bits]:
    """One result of every operation, with subnormal numbers in all of them."""
    a, b = pairs("fp32", 2000, 46)
    narrow_a, narrow_b = pairs("bf16", 2000, 46)
    left = golden.from_bits(matrix((8, 8), "fp32", 47) & 0x80FFFFFF)
    right = golden.from_bits(matrix((8, 8), "fp32", 48))
    return [
        golden.convert(a, subnormals="ieee"),
        golden.add(a, b, subnormals="ieee"),
        golden.multiply(narrow_a, narrow_b, subnormals="ieee"),
        golden.to_bits(golden.matmul(left, right, rows=3, subnormals="ieee")),
    ]


EXPECTED_WITHOUT_FLUSHING = everything_ieee()


@pytest.mark.usefixtures("flushing_host")
def test_host_that_flushes_changes_nothing() -> None:
    """Gradual underflow comes from the model, not from the host's FPU."""
    smallest = np.array([1, 1], dtype=np.uint32).view(np.float32)
    assert (smallest + smallest == 0).all(), "the fixture must have an effect"
    for got, expected in zip(everything_ieee(), EXPECTED_WITHOUT_FLUSHING, strict=True):
        assert np.array_equal(got, expected)


def test_nothing_underflows_or_overflows_in_binary64() -> None:
    """Nor is any floating-point warning left to the caller's settings."""
    with np.errstate(all="raise"):
        for got, expected in zip(everything_ieee(), EXPECTED_WITHOUT_FLUSHING, strict=True):
            assert np.array_equal(got, expected)


def test_messages() -> None:
    """Each argument is checked under its own name."""
    with pytest.raises(ValueError, match=r"^subnormals must be 'flush' or 'ieee', not None$"):
        golden.add(0, 0, subnormals=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^subnormals must be 'flush' or 'ieee', not 'FLUSH'$"):
        golden.multiply(0, 0, subnormals="FLUSH")
    with pytest.raises(ValueError, match=r"^fmt must be one of .*, not 'fp64'$"):
        golden.add(0, 0, "fp64")
    with pytest.raises(ValueError, match=r"^operand must be one of .*, not 'fp64'$"):
        golden.multiply(0, 0, "fp64")
    with pytest.raises(ValueError, match=r"^result must be one of .*, not 'fp64'$"):
        golden.multiply(0, 0, "bf16", "fp64")
    with pytest.raises(ValueError, match=r"^a must be patterns of 16 bits \(bf16\), not 0x3f800000$"):
        golden.multiply(0x3F800000, 0)
    with pytest.raises(ValueError, match=r"^b must be patterns of 8 bits \(fp8_e4m3\), not 0x100$"):
        golden.add(0, 0x100, "fp8_e4m3")
    with pytest.raises(TypeError, match=r"^a must be bit patterns in an integer array, not float64$"):
        golden.add(1.0, 0)
    with pytest.raises(ValueError, match=r"^a and b must have shapes that broadcast, not \(2,\) and \(3,\)$"):
        golden.add([0, 0], [0, 0, 0])
