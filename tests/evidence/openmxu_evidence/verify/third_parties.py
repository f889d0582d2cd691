"""Samples of the golden model, and of the gates that synthesis makes, against arithmetic that others wrote.

==============  ========================================================================================
``softfloat``   Berkeley SoftFloat (softfloatpy): integer arithmetic in C, tens of millions a second
``mpfr``        GNU MPFR (gmpy2): arbitrary precision, some hundred thousand a second
JAX             whole matrices, by XLA on the processor this runs on, which flushes subnormal numbers
==============  ========================================================================================

None of them takes anything from the golden model, nor from the hardware: patterns are read and written here
once more. Comparisons are bit for bit, with two exceptions. NaNs of an oracle count as the canonical NaN,
since their payloads are its own affair; and a conversion, which keeps the payload of a NaN, passes with any
quiet NaN, since no oracle knows that rule.
"""

import ctypes
import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from openmxu.area.target.gates import gates
from openmxu.arith import Adder, Converter, Multiplier
from openmxu.runtime.extras import install
from openmxu.spec.formats import BF16, FP16, FP32
from openmxu_evidence.verify.exhaustion import Tally
from openmxu_sim import golden
from openmxu_sim.golden.arithmetic import check_subnormals
from openmxu_sim.netlist.bitslice import Gates
from openmxu_sim.netlist.native import compile_c
from openmxu_sim.operands import vectors
from openmxu_sim.operands.aliases import Floats, Progress, Words

_CHUNK = 1 << 16


@dataclass(frozen=True)
class _Format:
    """A format, with all that reading and writing patterns needs, independent of the golden model."""

    exponent_width: int
    fraction_width: int

    @property
    def sign(self) -> int:
        return 1 << (self.exponent_width + self.fraction_width)

    @property
    def infinity(self) -> int:
        return self.sign - (1 << self.fraction_width)

    @property
    def quiet_nan(self) -> int:
        return self.infinity | 1 << (self.fraction_width - 1)

    @property
    def min_exponent(self) -> int:
        return 2 - (1 << (self.exponent_width - 1))


_FORMATS = {"bf16": _Format(8, 7), "fp16": _Format(5, 10), "fp32": _Format(8, 23)}


@dataclass(frozen=True)
class Operation:
    """An operation to compare."""

    kind: str
    """``"add"``, ``"multiply"`` or ``"convert"``."""
    operand: str
    result: str
    """Formats: ``"bf16"``, ``"fp16"`` or ``"fp32"``."""
    softfloat: str
    """Name of the function in SoftFloat; bf16 operands are widened for it, which is exact."""
    unit: Callable[[str], Any] | None = None
    """The hardware, from its mode of subnormals; None where only the golden model is compared."""


OPERATIONS = {
    "fp32 + fp32": Operation("add", "fp32", "fp32", "f32_add", lambda mode: Adder(FP32, subnormals=mode)),
    "fp16 + fp16": Operation("add", "fp16", "fp16", "f16_add", lambda mode: Adder(FP16, subnormals=mode)),
    "bf16 x bf16 -> fp32": Operation(
        "multiply", "bf16", "fp32", "f32_mul", lambda mode: Multiplier(BF16, FP32, subnormals=mode)
    ),
    "fp32 -> bf16": Operation(
        "convert", "fp32", "bf16", "f32_to_bf16", lambda mode: Converter(FP32, BF16, subnormals=mode)
    ),
    "fp16 x fp16": Operation("multiply", "fp16", "fp16", "f16_mul"),
    "fp32 x fp32": Operation("multiply", "fp32", "fp32", "f32_mul"),
    "fp32 -> fp16": Operation("convert", "fp32", "fp16", "f32_to_f16"),
    "fp16 -> fp32": Operation("convert", "fp16", "fp32", "f16_to_f32"),
}
"""Operations to compare, by name; the first four have gates, too."""


def sample(
    subject: str,
    operation: str,
    subnormals: str,
    oracle: str,
    count: int,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Tally:
    """Compare results for biased operands: :func:`openmxu_sim.operands.vectors.pairs`, and corners with corners."""
    chosen = OPERATIONS[operation]
    flush = check_subnormals(subnormals)
    compute = SUBJECTS[subject](operation, subnormals)
    expect = ORACLES[oracle](chosen, flush)
    done, wrong, first = 0, 0, ""
    while done < count:
        operands = _operands(chosen, min(_CHUNK, count - done), seed)
        got = compute(*operands)
        if chosen.kind == "convert":
            got = _one_nan(got, _FORMATS[chosen.result])
        expected = expect(*operands)
        different = np.flatnonzero(got != expected)
        if len(different) and not wrong:
            at = different[0]
            inputs = " ".join(f"{operand[at]:X}" for operand in operands)
            first = f"{inputs}: got {got[at]:X}, expected {expected[at]:X} (seed {seed})"
        wrong += len(different)
        done += len(got)
        seed += 1
        if progress is not None:
            progress(done, count)
    return Tally(done, wrong, first)


def _operands(operation: Operation, count: int, seed: int) -> tuple[Words, ...]:
    """Return operands, of which an eighth are corners."""
    corners = vectors.corners(operation.operand)
    if operation.kind == "convert":
        biased: tuple[Words, ...] = (vectors.operands(operation.operand, count, seed),)
    else:
        biased = vectors.pairs(operation.operand, count, seed)
    drawn = np.random.default_rng(seed).choice(corners, size=(len(biased), count // 8))
    return tuple(np.concatenate([edge, rest[count // 8 :]]) for edge, rest in zip(drawn, biased, strict=True))


# The subjects of the checks.


def _golden_model(name: str, subnormals: str) -> Callable[..., Words]:
    """Return the golden model's function for an operation."""
    operation = OPERATIONS[name]
    if operation.kind == "add":
        return lambda a, b: golden.add(a, b, operation.operand, subnormals=subnormals)
    if operation.kind == "multiply":
        return lambda a, b: golden.multiply(a, b, operation.operand, operation.result, subnormals=subnormals)
    return lambda bits: golden.convert(bits, operation.operand, operation.result, subnormals=subnormals)


@functools.cache
def _mapped_gates(name: str, subnormals: str) -> Callable[..., Words]:
    """Return the gates that synthesis makes for an operation."""
    chosen = OPERATIONS[name]
    if chosen.unit is None:
        possible = ", ".join(key for key, operation in OPERATIONS.items() if operation.unit)
        raise ValueError(f"an operation with gates must be one of {possible}, not {name!r}")
    return Gates(gates(chosen.unit(subnormals)), ("i",) if chosen.kind == "convert" else ("i_a", "i_b"))


SUBJECTS: dict[str, Callable[[str, str], Callable[..., Words]]] = {"golden": _golden_model, "gates": _mapped_gates}
"""Subjects of the checks: from the name of an operation and a mode, a function on patterns."""


# Patterns.


def _one_nan(bits: Words, fmt: _Format) -> Words:
    """Return patterns with the canonical NaN in place of every quiet one."""
    return np.where((bits & fmt.quiet_nan) == fmt.quiet_nan, np.uint32(fmt.quiet_nan), bits)


def _zeros(bits: Words, fmt: _Format) -> Words:
    """Return zeros of the same signs."""
    return bits & np.uint32(fmt.sign)


def _flushed(bits: Words, fmt: _Format) -> Words:
    """Return patterns with a zero of its sign in place of every subnormal number."""
    return np.where((bits & fmt.infinity) == 0, _zeros(bits, fmt), bits)


def _import(package: str, extra: str) -> Any:
    """Return an optional package."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError:
        raise OracleNotFoundError(f"{package} is not installed: {install(extra)}") from None


class OracleNotFoundError(ValueError):
    """The package of an oracle is not installed; the text says how to get it."""


# Berkeley SoftFloat.

_UNDERFLOW = 2  # softfloat_flag_underflow

# A call from Python for each operation would be a hundred times slower.
_LOOP = """
#include <stddef.h>
#include <stdint.h>
typedef struct {{ uint{operand}_t v; }} operand;
typedef struct {{ uint{result}_t v; }} result;
void loop(result (*function)({parameters}), volatile uint8_t *flags, const uint32_t *operands, uint32_t *results,
          uint8_t *raised, size_t count) {{
  for (size_t i = 0; i < count; i++) {{
    const operand a = {{ operands[i] }}, b = {{ operands[count + i] }};
    *flags = 0;
    results[i] = function({arguments}).v;
    raised[i] = *flags;
    (void)b;
  }}
}}
"""


def _softfloat(operation: Operation, flush: bool) -> Callable[..., Words]:
    """Return the operation by SoftFloat.

    In flush mode SoftFloat is asked to detect underflow before rounding. A result that is too small is then either
    inexact, and SoftFloat raises its flag, or exact, and the result itself is zero or subnormal.
    """
    package = _import("softfloatpy", "verify")
    library = ctypes.CDLL(importlib.import_module("softfloatpy._core").__file__)
    function = ctypes.cast(getattr(library, operation.softfloat), ctypes.c_void_p)
    flags = ctypes.byref(ctypes.c_uint8.in_dll(library, "softfloat_exceptionFlags"))
    loop = _softfloat_loop(
        16 if operation.operand == "fp16" else 32,
        32 if operation.result == "fp32" else 16,
        unary=operation.kind == "convert",
    )
    source, target = _FORMATS[operation.operand], _FORMATS[operation.result]

    def expect(*operands: Words) -> Words:
        stacked = np.zeros((2, len(operands[0])), dtype=np.uint32)
        stacked[: len(operands)] = [_flushed(words, source) if flush else words for words in operands]
        if operation.operand == "bf16":
            stacked <<= np.uint32(16)
        results = np.empty(len(operands[0]), dtype=np.uint32)
        raised = np.empty(len(results), dtype=np.uint8)
        before = package.get_tininess_mode(), package.get_rounding_mode()
        package.set_tininess_mode(package.TininessMode.BEFORE_ROUNDING)
        package.set_rounding_mode(package.RoundingMode.NEAR_EVEN)
        try:
            loop(
                function,
                flags,
                stacked.ctypes.data_as(ctypes.c_void_p),
                results.ctypes.data_as(ctypes.c_void_p),
                raised.ctypes.data_as(ctypes.c_void_p),
                ctypes.c_size_t(len(results)),
            )
        finally:
            package.set_tininess_mode(before[0])
            package.set_rounding_mode(before[1])
        if flush:
            results = np.where(raised & _UNDERFLOW, _zeros(results, target), _flushed(results, target))
        return _one_nan(results, target)

    return expect


@functools.cache
def _softfloat_loop(operand: int, result: int, *, unary: bool) -> Any:
    """Return a C function that applies one of SoftFloat's to arrays."""
    loop = compile_c(
        _LOOP.format(
            operand=operand,
            result=result,
            parameters="operand" if unary else "operand, operand",
            arguments="a" if unary else "a, b",
        )
    ).loop
    loop.restype = None
    return loop


# GNU MPFR.

_EXACT_BITS = 320  # fp32 sums lie between 2**129 and 2**-149; products have 48 bits


def _mpfr(operation: Operation, flush: bool) -> Callable[..., Words]:
    """Return the operation by MPFR, with the precision and the range of exponents of the result.

    In flush mode it is done exactly, too, and the exact result is compared with the smallest normal number.
    """
    gmpy2 = _import("gmpy2", "verify")
    source, target = _FORMATS[operation.operand], _FORMATS[operation.result]
    # MPFR has significands in [1/2, 1), so its exponents are one higher.
    rounding = gmpy2.context(
        precision=target.fraction_width + 1,
        emax=2 - target.min_exponent,
        emin=target.min_exponent - target.fraction_width + 1,
        subnormalize=True,
        round=gmpy2.RoundToNearest,
    )
    method = {"add": "add", "multiply": "mul", "convert": "plus"}[operation.kind]
    rounded = getattr(rounding, method)
    exact = getattr(gmpy2.context(precision=_EXACT_BITS), method)
    smallest = gmpy2.mpfr(2.0**target.min_exponent)

    def expect(*operands: Words) -> Words:
        numbers = [
            list(map(gmpy2.mpfr, _values(_flushed(value, source) if flush else value, operation.operand)))
            for value in operands
        ]
        results = _patterns([float(value) for value in map(rounded, *numbers)], operation.result)
        if flush:
            tiny = [-smallest < value < smallest for value in map(exact, *numbers)]
            results = np.where(tiny, _zeros(results, target), results)
        return results

    return expect


def _values(bits: Words, name: str) -> list[float]:
    """Return the values of patterns; widening is exact."""
    with np.errstate(invalid="ignore"):  # signalling NaNs
        if name == "fp16":
            return bits.astype(np.uint16).view(np.float16).astype(np.float64).tolist()
        return (bits << np.uint32(16 if name == "bf16" else 0)).view(np.float32).astype(np.float64).tolist()


def _patterns(values: list[float], name: str) -> Words:
    """Return the patterns of values that the format has; nothing is rounded."""
    if name == "fp16":
        bits = np.array(values, dtype=np.float16).view(np.uint16).astype(np.uint32)
    else:
        bits = np.array(values, dtype=np.float32).view(np.uint32) >> np.uint32(16 if name == "bf16" else 0)
    return np.where(np.isnan(values), np.uint32(_FORMATS[name].quiet_nan), bits)


ORACLES: dict[str, Callable[[Operation, bool], Callable[..., Words]]] = {"softfloat": _softfloat, "mpfr": _mpfr}
"""Oracles: from an operation and whether it flushes, a function that gives the expected patterns."""


# JAX.

_SIDE = 32


def products_by_jax(
    count: int, *, seed: int = 0, matmul: Callable[..., Floats] = golden.matmul, progress: Progress | None = None
) -> Tally:
    """Compare matrix products in flush mode with XLA's multiplications and additions, in the documented order.

    Values of every sort, tiles of every height: infinities, NaNs, underflow and the signs of zeros included. XLA
    sets the processor to flush subnormal numbers, operands and results. That this happens after rounding there
    makes no difference: what is too small is exact, be it a product of bf16 numbers or a sum.

    Multiplication and addition are compiled apart. In one function, as in ``jax.numpy.dot``, XLA contracts them to
    a fused multiply-add, where a product neither overflows nor underflows on its way; and the order in which it
    sums depends on its version and on the shape.
    """
    jax = _import("jax", "jax")
    multiply, add = jax.jit(lambda x, y: x * y), jax.jit(lambda x, y: x + y)
    done, wrong, first = 0, 0, ""
    with jax.default_device(jax.devices("cpu")[0]):
        while done < count:
            rng = np.random.default_rng(seed)
            kind = str(rng.choice(["all", "normal", "uniform"]))
            inner = int(2 ** rng.uniform(0, 7.5))  # few terms as often as many: uniform patterns soon add up to NaN
            a, b = _matrices(inner, seed, kind)
            rows = int(rng.integers(1, inner + 1))
            got = matmul(a, b, rows=rows, subnormals="flush").view(np.uint32)
            expected = np.asarray(_product(a, b, rows, multiply, add)).view(np.uint32)
            expected = np.where((expected & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x7FC00000), expected)
            different = np.argwhere(got != expected)
            if len(different) and not wrong:
                i, j = different[0]
                first = (
                    f"{_SIDE}x{inner}x{_SIDE}, tiles of {rows}, result {i}, {j}: "
                    f"got {got[i, j]:08X}, expected {expected[i, j]:08X} (seed {seed})"
                )
            wrong += len(different)
            done += got.size
            seed += 1
            if progress is not None:
                progress(min(done, count), count)
    return Tally(done, wrong, first)


def _product(a: Floats, b: Floats, rows: int, multiply: Callable[..., Any], add: Callable[..., Any]) -> Any:
    """Return the sum of products in the contract's order."""
    total = None
    for start in range(0, a.shape[1], rows):
        tile: Any = np.zeros((a.shape[0], b.shape[1]), dtype=np.float32)
        for k in range(start, min(start + rows, a.shape[1])):
            tile = add(tile, multiply(a[:, k, np.newaxis], b[np.newaxis, k, :]))
        total = tile if total is None else add(total, tile)
    return total


def _matrices(inner: int, seed: int, kind: str) -> tuple[Floats, Floats]:
    """Return two float32 matrices of bf16 values."""
    a = vectors.matrix((_SIDE, inner), "bf16", seed, kind=kind)
    b = vectors.matrix((_SIDE, inner), "bf16", seed + (1 << 32), kind=kind).T
    return (a << 16).view(np.float32), np.ascontiguousarray(b << 16).view(np.float32)
