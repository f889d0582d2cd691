"""Scaled operands, blocks and sums against definitions that share nothing with the golden model.

Elements are cast by ml_dtypes, scales and sums are computed in Python's integers and fractions.
"""

import math
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from openmxu_sim import golden
from openmxu_sim.engines import model
from openmxu_sim.golden.specifications import find_operand, find_sum, prepare
from openmxu_sim.operands import vectors
from openmxu_sim.operands.vectors import canonical

from ...bits import same_bits
from ...conftest import slow

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


def _blocks(name: str, x: Floats, *, torchao: bool = False) -> Floats:
    """Each block of 32 by OCP's definition, its exponent from Python's frexp; or with what torchao does otherwise."""
    dtype, largest_exponent = ELEMENTS[name]
    most = float(ml_dtypes.finfo(dtype).max)
    result = np.empty_like(x)
    for row, first in product(range(len(x)), range(0, x.shape[1], 32)):
        block = x[row, first : first + 32].astype(np.float64)
        peak = float(np.abs(block).max())
        if not math.isfinite(peak) and (math.isnan(peak) or not torchao):
            result[row, first : first + 32] = np.nan
            continue
        exponent = math.frexp(peak)[1] - 1 if math.isfinite(peak) else 128
        shared = max(-127, exponent - largest_exponent) if peak else -127
        halved = torchao and shared == -127
        elements = np.clip(block * 2.0**-shared / (1 + halved), -most, most).astype(dtype).astype(np.float64)
        with np.errstate(over="ignore"):
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
    x[::9] = np.clip(x[::9], -1, 1) * np.float32(2.0**-121)  # where exponents of scales end
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
        for odd in (np.inf, np.nan):
            assert not torch.isfinite(two.per_tensor_amax_to_scale(torch.tensor(odd)))
    else:
        kinds = {"mxfp8_e4m3": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2, "mxfp4": torch.float4_e2m1fn_x2}
        kind_of = kinds.get(name, name.removeprefix("mx"))
        x[1::9, 5], x[2::9, 40], x[11, 7] = np.inf, -np.inf, np.nan
        shared, data = formats.to_mx(torch.from_numpy(x.copy()), kind_of, 32)
        expected = formats.to_dtype(data, shared, kind_of, 32, torch.float32).numpy()
        decoded = _blocks(name, x, torchao=True)
        others = decoded.view(np.uint32) == _blocks(name, x).view(np.uint32)
        assert 0.6 < others.mean() < 1
        same_bits(np.where(others, _prepared(x, name)[0], decoded), decoded, note=f"ours, {name}")
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


@pytest.mark.parametrize("way", ["", "/stochastic"])
@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp8_e4m3", "e8f22"])
def test_a_rows_own_largest_number(fmt: str, way: str) -> None:
    """A scale in fp32 is rounded, so it may be too small by half a place: what it was made of does not overflow."""
    most = np.float32(golden.find_format(fmt).max_finite)
    x = np.abs(_numbers((1000, 1), "normal")) + np.float32(8)
    peak = max(x.ravel(), key=lambda each: each / (each / most))
    assert peak / (peak / most) > most
    x = np.full((1 << 14, 1), peak)
    x[:3] = [[np.inf], [np.nan], [-peak]]
    for group, largest in (("tensor", None), ("row", None), ("tensor", float(peak))):
        how = {"rows": 1, "operand": f"{fmt}/{group}/fp32{way}", "weight": "fp32", "largest": (largest, None)}
        found = [engine.matmul(x, np.float32([[1]]), **how) for engine in (golden, model)]
        same_bits(*found)
        assert not np.isfinite(found[0][:2]).any()
        same_bits(found[0][2:], np.where(x[2:] < 0, np.float32(-1), np.float32(1)) * (most * (peak / most)))


# The definition in fractions, number by number, as docs/explanation/numerics.md has it.


class Number(NamedTuple):
    """A number with its sign: of zeros, too."""

    negative: bool
    magnitude: Fraction | float
    """Infinity and NaN are Python's."""


NAN, ZERO = Number(False, math.nan), Number(False, Fraction(0))


class Layout:
    """A format."""

    def __init__(self, name: str) -> None:
        widths = {"fp32": "e8f23", "bf16": "e8f7", "fp16": "e5f10", "fp8_e5m2": "e5f2", "fp8_e4m3": "e4f3"}
        self.name = name
        exponents, self.fraction = map(int, widths.get(name, name)[1:].split("f"))
        self.least, self.has_infinity = 2 - 2 ** (exponents - 1), name != "fp8_e4m3"
        top = 2 ** (exponents - 1) - self.has_infinity
        self.most = (2 - Fraction(1 + (not self.has_infinity), 2**self.fraction)) * Fraction(2) ** top
        self.min_normal = Fraction(2) ** self.least

    def rounded(
        self, x: Number, flush: bool, rounding: str = "nearest", word: Any = 0, *, late: bool = False
    ) -> Number:
        """Round once; in flush mode decide underflow before, or, ``late``, afterwards."""
        m: Any = x.magnitude
        if math.isnan(m) or (math.isinf(m) and not self.has_infinity):
            return NAN
        if m == 0 or math.isinf(m):
            return x
        if flush and not late and m < self.min_normal:
            return Number(x.negative, Fraction(0))
        exponent = _exponent(m) if late else max(_exponent(m), self.least)
        last = Fraction(2) ** (exponent - self.fraction)
        kept = {
            "nearest": round(m / last),
            "truncate": math.floor(m / last),
            "stochastic": math.floor(Fraction(math.floor(m / last * 2**24), 2**24) + word),
        }[rounding]
        m = kept * last
        if m > self.most:
            m = self.most if rounding == "truncate" else math.inf if self.has_infinity else math.nan
        return Number(x.negative, Fraction(0) if late and flush and m < self.min_normal else m)


def _exponent(m: Fraction) -> int:
    exponent = m.numerator.bit_length() - m.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= m else exponent - 1


def _product(x: Number, y: Number) -> Number:
    return Number(x.negative != y.negative, x.magnitude * y.magnitude)


def _total(terms: Sequence[Number]) -> Number:
    """The exact sum."""
    infinite = {term.negative for term in terms if math.isinf(term.magnitude)}
    if any(math.isnan(term.magnitude) for term in terms) or len(infinite) == 2:
        return NAN
    if infinite:
        return Number(infinite.pop(), math.inf)
    total = sum(-term.magnitude if term.negative else term.magnitude for term in terms)
    return Number(total < 0 if total else all(term.negative for term in terms), abs(total))


def _block(psum: Number, pairs: Sequence[tuple[Number, Number]], place: int) -> Number:
    """The sum of several terms, each cut at a place below the largest exponent."""
    terms = [psum, *(_product(x, y) for x, y in pairs)]
    nonzero = [(x.magnitude, y.magnitude) for x, y in pairs if 0 < x.magnitude * y.magnitude < math.inf]
    found = [_exponent(x) + _exponent(y) for x, y in nonzero]
    found += [_exponent(psum.magnitude)] if 0 < psum.magnitude < math.inf else []
    unit = Fraction(2) ** (max(found, default=0) - place)
    return _total([Number(x.negative, x.magnitude // unit * unit) if math.isfinite(x.magnitude) else x for x in terms])


class Side:
    """Operands of a product, (rows, K), as their specification makes them."""

    def __init__(self, x: Floats, spec: str, stream: int, flush: bool, seed: int, largest: float | None) -> None:
        name, *self.modifiers = spec.split("/")
        self.layout, self.stream, self.flush, self.seed = Layout(name), stream, flush, seed
        self.x = [[self._read(value) for value in row] for row in x]
        found = [re.fullmatch(r"tensor|row|block(\d+)", modifier) for modifier in self.modifiers]
        self.group = next((match for match in found if match), None)
        self.largest = largest
        self.numbers = [[self._number(row, k) for k in range(x.shape[1])] for row in range(len(x))]

    def _read(self, value: np.float32) -> Number:
        negative, exact = bool(np.signbit(value)), abs(float(value))
        if not math.isfinite(exact):
            return Number(negative, exact)
        return Number(negative, Fraction(0 if self.flush and exact < 2.0**-126 else exact))

    def peak(self, row: int, k: int) -> Fraction:
        """The largest finite magnitude among the numbers that share a scale with one."""
        assert self.group
        if self.group[0] == "tensor" and self.largest is not None:
            return Fraction(self.largest)
        length = int(self.group[1] or 1 << 20)
        rows = self.x if self.group[0] == "tensor" else [self.x[row]]
        shared = [each for line in rows for each in line[k // length * length :][:length]]
        return max((Fraction(each.magnitude) for each in shared if math.isfinite(each.magnitude)), default=Fraction(0))

    def scale(self, row: int, k: int) -> Fraction:
        """What numbers are divided by."""
        exact = self.peak(row, k) / self.layout.most
        if not exact:
            return Fraction(1)
        least = Fraction(2) ** _exponent(exact)
        scale: Any = least if least == exact else 2 * least
        if "fp32" in self.modifiers:
            scale = Layout("fp32").rounded(Number(False, exact), False).magnitude
        return Fraction(min(max(scale, Fraction(2) ** -126), Fraction(2) ** 127))

    def _number(self, row: int, k: int) -> Number:
        x, most = self.x[row][k], self.layout.most
        if self.group and math.isfinite(x.magnitude):
            x = Layout("fp32").rounded(Number(x.negative, x.magnitude / self.scale(row, k)), False)
            if "fp32" in self.modifiers and self.x[row][k].magnitude <= self.peak(row, k):
                x = Number(x.negative, min(x.magnitude, most))
        rounding = "stochastic" if "stochastic" in self.modifiers else "nearest"
        number = self.layout.rounded(x, self.flush, rounding, _noise(self.seed, self.stream, row, k))
        too_large = not math.isfinite(number.magnitude) and not math.isnan(x.magnitude)
        return Number(x.negative, most) if too_large and "saturate" in self.modifiers else number


def _defined(
    a: Floats, b: Floats, *, rows: int, subnormals: str, operand: str, weight: str, accumulate: str, between: str,
    terms: int = 1, seed: int = 0, largest: tuple[float | None, float | None] = (None, None),
) -> Floats:  # fmt: skip
    flush, result = subnormals == "flush", np.empty((len(a), b.shape[1]), np.float32)
    left, right = (
        Side(x, spec, stream, flush, seed, peak)
        for stream, (x, spec, peak) in enumerate(zip((a, b.T), (operand, weight), largest, strict=True))
    )
    name, *ways = accumulate.split("/")
    sums, rounding = Layout(name), next((way for way in ways if not way.startswith("guard")), "nearest")
    guard = next((int(way[5:]) for way in ways if way.startswith("guard")), 3)
    name, *others = between.split("/")
    tiles, across = Layout(name), others[0] if others else "nearest"
    for i, j in product(range(len(a)), range(b.shape[1])):

        def word(k: int, kind: int, at: int = i * b.shape[1] + j) -> Fraction:
            return _noise(seed, 2, at, 4 * k + kind)

        total = ZERO
        for first in range(0, a.shape[1], rows):
            tile, end = ZERO, min(first + rows, a.shape[1])
            for k in range(first, end, terms):
                pairs = [(left.numbers[i][at], right.numbers[j][at]) for at in range(k, min(k + terms, end))]
                if terms > 1:
                    exact = _block(tile, pairs, sums.fraction + guard)
                    tile = sums.rounded(exact, flush, rounding, word(k, 1), late=True)
                else:
                    one = sums.rounded(_product(*pairs[0]), flush, rounding, word(k, 0))
                    tile = sums.rounded(_total([tile, one]), flush, rounding, word(k, 1))
            if left.group or right.group:
                scales = [side.scale(at, first) if side.group else 1 for side, at in ((left, i), (right, j))]
                both = Layout("fp32").rounded(Number(False, Fraction(scales[0] * scales[1])), False).magnitude
                tile = _product(tile, Number(False, min(both, Layout("fp32").most)))
            if left.group or right.group or tiles.name != sums.name:
                tile = tiles.rounded(tile, flush, across, word(first, 3))
            total = tiles.rounded(_total([total, tile]), flush, across, word(first, 2)) if first else tile
        result[i, j] = -float(total.magnitude) if total.negative else float(total.magnitude)
    return result


_OPERANDS = [
    *("bf16", "fp16", "fp8_e4m3", "fp32", "bf16/stochastic", "fp8_e4m3/saturate", "e3f4/row", "fp8_e4m3/tensor"),
    *("fp8_e5m2/block8/fp32", "fp16/row/saturate", "fp8_e4m3/row/fp32/stochastic", "fp32/tensor/fp32"),
]
_SUMS = [
    *("fp32", "bf16", "fp8_e4m3", "e2f1", "e5f2/truncate", "e8f13/truncate", "fp8_e4m3/stochastic", "fp32/stochastic")
]


def _cases(seed: int) -> Iterator[dict[str, Any]]:
    """Each pair of parameters' values, beside others at random; a narrow sum is added across tiles in each format."""
    rng = np.random.default_rng(seed)
    for operand, sums in product(_OPERANDS, _SUMS):
        pick = partial(rng.choice, size=None)
        terms = int(pick([1, 1, 2, 4]))
        guard = f"/guard{pick([0, 1, 2])}" if terms > 1 and pick(2) else ""
        yield {
            **{"operand": operand, "weight": str(pick(_OPERANDS)), "accumulate": sums + guard, "terms": terms},
            **{"between": str(pick([sums, "fp32", "bf16", "fp8_e4m3", "fp16/stochastic"])), "rows": int(pick([4, 8]))},
            **{"subnormals": str(pick(["flush", "ieee"])) if terms == 1 else "flush", "seed": int(pick(2**32))},
            **({"largest": (3.5, None)} if "tensor" in operand and pick(2) else {}),
        }


def _hostile(rows: int, inner: int, seed: int) -> Floats:
    """Numbers whose products meet, overflow and underflow, and what is no number."""
    rng = np.random.default_rng(seed)
    scales = rng.choice([0, 0, 0, 7, -7, 60, -75], (rows, 1))
    x = np.ldexp(rng.standard_normal((rows, inner)), scales).astype(np.float32)
    odd = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 2.0**-127, 1, 448, -464, 3e38])
    return np.where(rng.random(x.shape) < 0.06, rng.choice(odd, x.shape), x)


@pytest.mark.parametrize("seed", [0, *map(slow, range(1, 6))])
def test_products_by_fractions(seed: int) -> None:
    for number, how in enumerate(_cases(seed)):
        a, b = _hostile(3, 11, number), _hostile(2, 11, number + 1000).T
        expected = canonical(golden.to_bits(_defined(a, b, **how)))
        for engine in (golden, model):
            same_bits(golden.to_bits(engine.matmul(a, b, **how)), expected, note=f"{engine.__name__}, {how}")


def _mixed(x: int) -> int:
    x = (x ^ x >> 16) * 0x7FEB352D % 2**32
    x = (x ^ x >> 15) * 0x846CA68B % 2**32
    return x ^ x >> 16


def _noise(seed: int, stream: int, row: int, column: int) -> Fraction:
    start = _mixed(_mixed(seed) ^ stream)
    return Fraction(_mixed(_mixed(row ^ start) ^ _mixed(column)) >> 8, 2**24)


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
        ({"operand": "mxfp4/row"}, "operand must have no modifier for scales or saturation in mxfp4, not 'mxfp4/row'"),
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
        ({"accumulate": "fp32/guard3"}, "accumulate must have no guard bits, which several terms have, not "
         "'fp32/guard3'"),
        ({"between": "bf16/guard0", "terms": 2}, "between must have no guard bits, which several terms have, not "
         "'bf16/guard0'"),
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
