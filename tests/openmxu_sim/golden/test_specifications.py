"""Scaled operands, blocks and sums against definitions that share nothing with the golden model.

Elements are cast by ml_dtypes, scales and sums are computed in Python's integers and fractions.
"""

import math
import re
from fractions import Fraction
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from openmxu_sim import golden
from openmxu_sim.golden.specifications import find_operand, find_sum, prepare
from openmxu_sim.operands import vectors

from ...bits import same_bits

Floats = npt.NDArray[np.float32]

ELEMENTS: dict[str, tuple[Any, int]] = {
    "mxfp8_e4m3": (ml_dtypes.float8_e4m3fn, 8),
    "mxfp8_e5m2": (ml_dtypes.float8_e5m2, 15),
    "mxfp6_e2m3": (ml_dtypes.float6_e2m3fn, 2),
    "mxfp6_e3m2": (ml_dtypes.float6_e3m2fn, 4),
    "mxfp4": (ml_dtypes.float4_e2m1fn, 2),
}
"""Types of elements, and the exponents of the largest ones."""


def _numbers(shape: tuple[int, int], kind: str, seed: int = 1) -> Floats:
    """Patterns of all sorts without infinities and NaNs."""
    bits = vectors.matrix(shape, "fp32", seed, kind=kind)
    return golden.from_bits(np.where((bits & 0x7F800000) == 0x7F800000, bits & 0x807FFFFF, bits).astype(np.uint32))


def _prepared(x: Floats, spec: str, mode: str = "ieee") -> tuple[Floats, Any]:
    def none() -> Any:
        raise AssertionError("no noise is drawn")

    done = prepare(golden.to_bits(x), find_operand(spec), subnormals=mode, noise=none)
    return done.bits.view(np.float32), done.scales


def _blocks(name: str, x: Floats) -> Floats:
    """Each block of 32 by OCP's definition, its exponent from Python's frexp."""
    dtype, largest_exponent = ELEMENTS[name]
    most = float(ml_dtypes.finfo(dtype).max)
    result = np.empty_like(x)
    for row, first in product(range(len(x)), range(0, x.shape[1], 32)):
        block = x[row, first : first + 32].astype(np.float64)
        peak = float(np.abs(block).max())
        shared = max(-127, math.frexp(peak)[1] - 1 - largest_exponent) if peak else -127
        elements = np.clip(block * 2.0**-shared, -most, most).astype(dtype).astype(np.float64)
        result[row, first : first + 32] = elements * 2.0**shared
    return result


@pytest.mark.parametrize("kind", ["all", "uniform", "normal"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_blocks(name: str, kind: str) -> None:
    x = _numbers((300, 80), kind)
    x[::9] = np.clip(x[::9], -1, 1) * np.float32(2.0**-121)  # where exponents of scales end
    decoded, scales = _prepared(x, name)
    same_bits(decoded, _blocks(name, x), note=name)
    assert scales is None


@pytest.mark.parametrize("kind", ["all", "uniform", "normal"])
@pytest.mark.parametrize("name", [*ELEMENTS, "nvfp4"])
def test_blocks_of_torchao(name: str, kind: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make setup-models")
    formats = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor", reason="torchao is not installed")
    x = _numbers((300, 64), kind)
    if name == "nvfp4":
        two = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
        kernels = pytest.importorskip("torchao.prototype.mx_formats.kernels")
        x = np.clip(x, -1e30, 1e30)
        tensor = two.per_tensor_amax_to_scale(torch.from_numpy(x).abs().max())
        shared, packed = two.nvfp4_quantize(torch.from_numpy(x), 16, tensor)
        elements = kernels.f4_unpacked_to_f32(kernels.unpack_uint4(packed)).view(300, 4, 16)
        expected = (elements * shared.float().view(300, 4, 1)).view(300, 64).numpy()
        decoded, scales = _prepared(x, name)
        assert scales.item() == tensor.item()
    else:
        kinds = {"mxfp8_e4m3": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2, "mxfp4": torch.float4_e2m1fn_x2}
        kind_of = kinds.get(name, name.removeprefix("mx"))
        shared, data = formats.to_mx(torch.from_numpy(x.copy()), kind_of, 32)
        expected = formats.to_dtype(data, shared, kind_of, 32, torch.float32).numpy()
        decoded, _ = _prepared(x, name)
    same_bits(decoded, expected, note=name)


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_two_levels(kind: str) -> None:
    """NVFP4, each operation on Python's numbers rounded to fp32 by numpy."""
    x = np.clip(_numbers((40, 48), kind), -1e30, 1e30)
    f32, decoded = np.float32, np.empty_like(x)
    tensor = f32(np.abs(x).max()) / f32(6 * 448)
    for row, first in product(range(len(x)), range(0, 48, 16)):
        block = x[row, first : first + 16]
        wanted = f32(np.abs(block).max() / f32(6)) / tensor
        shared = f32(min(max(wanted, f32(2.0**-6)), f32(448)).astype(ml_dtypes.float8_e4m3fn))
        scaled = np.clip(block * ((f32(1) / tensor) / shared), -6, 6)
        decoded[row, first : first + 16] = scaled.astype(ml_dtypes.float4_e2m1fn).astype(f32) * shared
    ours, scales = _prepared(x, "nvfp4")
    same_bits(ours, decoded)
    assert scales.item() == tensor


@pytest.mark.parametrize("name", [*ELEMENTS, "nvfp4"])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_block_with_what_is_no_number(name: str, odd: float) -> None:
    x = np.ones((2, 64), np.float32)
    x[0, 3] = odd
    length = 16 if name == "nvfp4" else 32
    decoded, _ = _prepared(x, name)
    assert np.isnan(decoded[0, :length]).all()
    assert np.isfinite(decoded[0, length:]).all()
    assert np.isfinite(decoded[1]).all()


@pytest.mark.parametrize("spec", ["fp8_e4m3", "fp8_e5m2", "int8", "fp16"])
@pytest.mark.parametrize("group", ["tensor", "row", "block32"])
@pytest.mark.parametrize("own", ["", "/fp32"])
def test_scales(spec: str, group: str, own: str) -> None:
    """The least power of two, or the nearest fp32 number, by which the largest number becomes representable."""
    dtypes = {"fp8_e4m3": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2, "fp16": np.float16}
    most = 127 if spec == "int8" else Fraction(float(ml_dtypes.finfo(dtypes[spec]).max))
    x = _numbers((9, 96), "normal")
    x[2] = 0
    ours, scales = _prepared(x, f"{spec}/{group}{own}")
    parts = {"tensor": (9, 96), "row": (1, 96), "block32": (1, 32)}[group]
    for row, first in product(range(0, 9, parts[0]), range(0, 96, parts[1])):
        part = x[row : row + parts[0], first : first + parts[1]]
        peak = Fraction(float(np.abs(part).max()))
        scale = Fraction(float(scales[row // parts[0], first // parts[1]]))
        if not peak:
            assert scale == 1
        elif own:
            assert scale == Fraction(float(np.float32(float(peak)) / np.float32(float(most))))
        else:
            assert most * scale / 2 < peak <= most * scale
        divided = part / np.float32(float(scale))
        if spec == "int8":
            expected = np.float32([[round(Fraction(float(value))) for value in line] for line in divided])
        else:
            expected = divided.astype(dtypes[spec]).astype(np.float32)
        assert np.array_equal(ours[row : row + parts[0], first : first + parts[1]], expected)


def test_saturation() -> None:
    x = np.float32([[449, -470, 1e30, -np.inf, np.nan, 3]])
    a = golden.matmul(x.T, np.float32([[1]]), rows=1, operand="fp8_e4m3/saturate", weight="bf16")
    assert a.ravel().tolist()[:4] == [448, -448, 448, -448]
    assert np.isnan(a[4, 0])
    assert a[5, 0] == 3


# Sums by fractions: each rounding is a search for the two neighbours of an exact value.


def _neighbours(value: Fraction, fraction_width: int) -> tuple[Fraction, Fraction]:
    """The last place of a value and how many of them it is, towards zero; far from both ends of the range."""
    exponent = math.floor(math.log2(abs(value))) if value else 0
    while value and not Fraction(2) ** exponent <= abs(value) < Fraction(2) ** (exponent + 1):
        exponent += 1 if abs(value) >= Fraction(2) ** (exponent + 1) else -1
    last = Fraction(2) ** (exponent - fraction_width)
    return last, abs(value) / last


def _rounded(value: Fraction, width: int, rounding: str, noise: Fraction) -> Fraction:
    last, places = _neighbours(value, width)
    whole = {
        "truncate": math.floor(places),
        "stochastic": math.floor(Fraction(math.floor(places * 2**24), 2**24) + noise),
        "nearest": round(places),
    }[rounding]
    return (whole if value >= 0 else -whole) * last


def _mixed(x: int) -> int:
    x = (x ^ x >> 16) * 0x7FEB352D % 2**32
    x = (x ^ x >> 15) * 0x846CA68B % 2**32
    return x ^ x >> 16


def _noise(seed: int, stream: int, row: int, column: int) -> Fraction:
    start = _mixed(_mixed(seed) ^ stream)
    return Fraction(_mixed(_mixed(row ^ start) ^ _mixed(column)) >> 8, 2**24)


@pytest.mark.parametrize("rounding", ["truncate", "stochastic", "nearest"])
@pytest.mark.parametrize(("width", "between"), [(7, 23), (23, 23), (13, 10)])
def test_sums_by_fractions(rounding: str, width: int, between: int) -> None:
    rng = np.random.default_rng(width)
    m, k, n, rows, seed = 4, 11, 3, 4, 77
    a, b = (rng.normal(size=shape).astype(ml_dtypes.bfloat16).astype(np.float32) for shape in ((m, k), (k, n)))
    a[0, 5] *= np.float32(2.0**-40)  # beyond what binary64 adds exactly
    b[7, 1] *= np.float32(2.0**60)
    way = "" if rounding == "nearest" else f"/{rounding}"
    specs = {"accumulate": f"e8f{width}{way}", "between": f"e8f{between}{way}"}
    result = golden.matmul(a, b, rows=rows, operand="bf16", seed=seed, **specs)
    for i, j in product(range(m), range(n)):
        at = i * n + j
        total = Fraction(0)
        for first in range(0, k, rows):
            tile = Fraction(0)
            for step in range(first, min(first + rows, k)):
                exact = Fraction(float(a[i, step])) * Fraction(float(b[step, j]))
                one = _rounded(exact, width, rounding, _noise(seed, 2, at, 4 * step))
                tile = _rounded(tile + one, width, rounding, _noise(seed, 2, at, 4 * step + 1))
            if width != between:
                tile = _rounded(tile, between, rounding, _noise(seed, 2, at, 4 * first + 3))
            if first:
                tile = _rounded(total + tile, between, rounding, _noise(seed, 2, at, 4 * first + 2))
            total = tile
        assert Fraction(float(result[i, j])) == total, (i, j)


@pytest.mark.parametrize(("spec", "width"), [("bf16/stochastic", 7), ("e5f2/stochastic", 2)])
def test_operands_at_random(spec: str, width: int) -> None:
    """Rounded up as often as the cut part is large, by the very words of the seed."""
    x = np.random.default_rng(0).normal(size=(200, 50)).astype(np.float32)
    result = golden.matmul(x, np.eye(50, dtype=np.float32), rows=50, operand=spec, weight="fp32", seed=5)
    for i, j in product(range(200), range(50)):
        exact = Fraction(float(x[i, j]))
        if abs(exact) >= Fraction(1, 2**14):
            assert Fraction(float(result[i, j])) == _rounded(exact, width, "stochastic", _noise(5, 0, i, j))
    assert abs(np.mean(result - x)) < 4 * 2.0**-width / math.sqrt(x.size), "no bias"
    weights = golden.matmul(np.eye(50, dtype=np.float32), x.T[:, :7], rows=50, operand="fp32", weight=spec, seed=5)
    exact = Fraction(float(x[3, 4]))
    assert Fraction(float(weights[4, 3])) == _rounded(exact, width, "stochastic", _noise(5, 1, 3, 4))


def test_integers() -> None:
    """Sums of 32 bits in Python's integers, then two roundings to fp32."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(5, 300)).astype(np.float32), rng.normal(size=(300, 6)).astype(np.float32)
    result = golden.matmul(a, b, rows=7, operand="int8/row/fp32")
    for i, j in product(range(5), range(6)):
        f32 = np.float32
        scales = np.abs(a[i]).max() / f32(127), np.abs(b[:, j]).max() / f32(127)
        pairs = zip((a[i], b[:, j]), scales, strict=True)
        left, right = ([round(Fraction(float(v))) for v in line / s] for line, s in pairs)
        total = sum(x * y for x, y in zip(left, right, strict=True))
        assert result[i, j] == f32(total) * (scales[0] * scales[1])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"operand": "mxfp4/row"}, "operand must have no scale of its own, and saturates, in mxfp4, not 'mxfp4/row'"),
        ({"operand": "int8"}, "operand must be scaled by tensor, row or blockN in int8, which saturates: 'int8'"),
        ({"operand": "bf16/fp32"}, "operand must be scaled by tensor, row or blockN for scales in fp32, not "
         "'bf16/fp32'"),
        ({"operand": "bf16/row/row"}, "modifiers of operand must be tensor, row or blockN, fp32, saturate, stochastic, "
         "each once, not 'row' in 'bf16/row/row'"),
        ({"operand": "bf16/block48"}, "rows must divide blocks of 48, not 32"),
        ({"operand": "int8/row", "weight": "bf16"}, "operand and weight must both be int8, or none, not 'int8/row' and "
         "'bf16'"),
        ({"operand": "int8/row", "accumulate": "bf16"}, "accumulate and between must be 'fp32', and terms 1, for int8 "
         "with sums in 32 bits, not 'bf16', None and 1"),
        ({"accumulate": "bf16/up"}, "modifiers of accumulate must be truncate or stochastic, and guard0 to guard3, "
         "each once, not 'up' in 'bf16/up'"),
        ({"precision": "high", "between": "bf16"}, "precision must be 'default' for two formats of operands or sums, "
         "not 'high'"),
        ({"precision": "high", "operand": "bf16/row"}, "precision must be 'default' for operands in bf16/row, not "
         "'high'"),
    ],
)  # fmt: skip
def test_messages(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        golden.matmul(np.ones((2, 2), "f4"), np.ones((2, 2), "f4"), rows=32, **options)


def test_sums_are_read() -> None:
    assert find_sum("bf16/guard1/truncate").guard == 1
    assert find_sum("fp32").is_plain
    assert not find_sum("fp32/guard2").is_plain
    with pytest.raises(ValueError, match=r"^K, or blocks of it, must be at most 131072 for int8 in 32 bits, not 1"):
        golden.matmul(np.ones((1, 131073), "f4"), np.ones((131073, 1), "f4"), rows=1, operand="int8/row")
