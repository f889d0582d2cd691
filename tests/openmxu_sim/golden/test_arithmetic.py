"""Multiplication and addition against Berkeley SoftFloat and numpy."""

from collections.abc import Callable

import numpy as np
import pytest

from openmxu_sim import golden
from openmxu_sim.golden import FORMATS
from openmxu_sim.golden.formats import Bits
from openmxu_sim.operands.vectors import canonical, corners, pairs

from ...bits import same_bits
from .berkeley import flushed, softfloat
from .test_formats import TYPES


def by_softfloat(fmt: str, operation: str, a: Bits, b: Bits) -> Bits:
    """Operate on patterns of fp32 or fp16 by SoftFloat; NaNs become the canonical one."""
    return canonical(softfloat(f"f{FORMATS[fmt].width}_{operation}", a, b), fmt)


def by_numpy(fmt: str, operation: str, a: Bits, b: Bits, result: str = "") -> Bits:
    """The same by numpy, after ml_dtypes has decoded what numpy does not have."""
    dtype, wide = TYPES[fmt], TYPES[result or fmt]
    x, y = (each.astype(f"u{dtype.itemsize}").view(dtype) for each in (a, b))
    with np.errstate(all="ignore"):
        x, y = x.astype(wide), y.astype(wide)
        return canonical((x + y if operation == "add" else x * y).view(f"u{wide.itemsize}"), result or fmt)


def mixed(fmt: str, most: int | None, seed: int) -> tuple[Bits, Bits]:
    """Biased pairs, and every corner with every corner; not more than `most` of each."""
    edges = corners(fmt)
    both = np.array([np.repeat(edges, len(edges)), np.tile(edges, len(edges))])
    if most is not None and most < both.shape[1]:
        both = both[:, np.random.default_rng(seed).choice(both.shape[1], size=most, replace=False)]
    a, b = np.concatenate([pairs(fmt, most or 300_000, seed), both], axis=1)
    return a, b


def check_products(a: Bits, b: Bits, expected: Bits, operand: str, result: str, mode: str) -> None:
    got = golden.multiply(a, b, operand, result, subnormals=mode)
    same_bits(got, expected, a, b, fmt=result, operand=operand, note=mode)


ORACLES = pytest.mark.parametrize(("oracle", "most"), [(by_softfloat, 60_000), (by_numpy, None)])
Oracle = Callable[[str, str, Bits, Bits], Bits]


@ORACLES
@pytest.mark.parametrize("fmt", ["fp32", "fp16"])
def test_sums(fmt: str, oracle: Oracle, most: int | None) -> None:
    """Both modes. A sum below the smallest normal number is exact, so flushing it afterwards is right."""
    a, b = mixed(fmt, most, 40)
    theirs = oracle(fmt, "add", a, b)
    same_bits(golden.add(a, b, fmt, subnormals="ieee"), theirs, a, b, fmt=fmt, operand=fmt, note="ieee, seed 40")
    theirs = flushed(oracle(fmt, "add", flushed(a, fmt), flushed(b, fmt)), fmt)
    same_bits(golden.add(a, b, fmt), theirs, a, b, fmt=fmt, operand=fmt, note="flush, seed 40")


@ORACLES
@pytest.mark.parametrize("fmt", ["fp32", "fp16"])
def test_products_in_the_same_format(fmt: str, oracle: Oracle, most: int | None) -> None:
    """The ieee mode; flush mode decides on the exact product, which the oracles do not show."""
    a, b = mixed(fmt, most, 41)
    check_products(a, b, oracle(fmt, "mul", a, b), fmt, fmt, "ieee")


@ORACLES
def test_products_of_bf16(oracle: Oracle, most: int | None) -> None:
    """Both modes: the product of two bf16 numbers is exact below 2**-126 too, unless it is below 2**-149."""
    a, b = mixed("bf16", most, 42)
    wide = a << np.uint32(16), b << np.uint32(16)
    check_products(a, b, oracle("fp32", "mul", *wide), "bf16", "fp32", "ieee")
    theirs = oracle("fp32", "mul", *(flushed(each, "fp32") for each in wide))
    check_products(a, b, flushed(theirs, "fp32"), "bf16", "fp32", "flush")


@pytest.mark.parametrize("operand", ["fp16", "fp8_e5m2", "fp8_e4m3"])
def test_products_in_fp32_agree_with_numpy(operand: str) -> None:
    a, b = mixed(operand, None, 44)
    check_products(a, b, by_numpy(operand, "mul", a, b, "fp32"), operand, "fp32", "ieee")


def test_operands_broadcast() -> None:
    """As in numpy, scalars included."""
    column, row = np.uint16([[0x3F80], [0x4000]]), np.uint32([0x3F80, 0x4000, 0x4040])
    products = [[0x3F800000, 0x40000000, 0x40400000], [0x40000000, 0x40800000, 0x40C00000]]
    assert golden.multiply(column, row).tolist() == products
    assert golden.add(row, 0, "bf16").tolist() == row.tolist()
    assert golden.add(0, 0).shape == ()
    assert golden.multiply(0x2000, 0x1F80) == golden.add(0x00800001, 0x80800000) == 0  # flush is the default
