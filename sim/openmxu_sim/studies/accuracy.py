"""Errors of products: each precision, against binary64 and beside fp32 all the way."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu.runtime.machine import Record
from openmxu.spec.config import MxuConfig
from openmxu.spec.passes import PASSES
from openmxu.spec.tiling import cycles
from openmxu_sim import golden
from openmxu_sim.engines import load_product
from openmxu_sim.operands.aliases import Progress

DEPTHS = (128, 256, 512, 1024, 2048, 4096)
"""Inner dimensions."""

_PLAIN = "fp32"
"""Name of the case beside the precisions: fp32 operands, products and sums, in the same order."""

_SIZE = 64
_ROWS = 128
_EXPONENTS = (0, -64, -96, -100, -104, -108, -112, -116, -120)
_UNIT = 2.0**-24
_OPERANDS: dict[str, Callable[[np.random.Generator, tuple[int, int]], npt.NDArray[np.float64]]] = {
    "normal": lambda generator, shape: generator.normal(size=shape),
    "uniform in [0, 1)": lambda generator, shape: generator.random(shape),
}

_TERMS, _SUMS, _PAIRS = (1, 2, 4, 8), (80, 50), 256
_Matrix = npt.NDArray[np.float64]
_TESTS: dict[str, Callable[[_Matrix, np.random.Generator, bool], _Matrix]] = {
    "normal": lambda x, draw, w: x,
    "ReLU: negative activations 0": lambda x, draw, w: x if w else np.maximum(x, 0),
    "positive: magnitudes": lambda x, draw, w: abs(x),
    "positive: uniform in [0.01, 1)": lambda x, draw, w: draw.uniform(0.01, 1, x.shape),
    "exponents: times 2^-12 to 2^12": lambda x, draw, w: np.ldexp(x, draw.integers(-12, 13, x.shape)),
    "cancelling: ab - a(b+b/128)": lambda x, _, w: np.repeat(x[:, ::2], 2, 1) * ([1, 129 / 128 if w else -1] * _PAIRS),
}
"""Operands by which several terms are tried, made of normally distributed ones: activations (M, K), weights (N, K)."""


@dataclass(frozen=True)
class Error:
    """Errors of one product."""

    operands: str
    """Distribution of the operands."""
    k: int
    """Inner dimension."""
    precision: str
    """One of :data:`~openmxu.spec.passes.PASSES`, or ``"fp32"``."""
    subnormals: str
    """``"flush"`` or ``"ieee"``."""
    exponent: int
    """The activations were multiplied by 2 to this power, the weights divided."""
    median: float
    largest: float
    """``|error| / Σ|a·b|`` over all elements, in units of 2^-24, half an fp32 ulp of 1."""


@dataclass(frozen=True)
class TermsError:
    """Errors of the sums of one test, in units of 2^-24."""

    operands: str
    terms: int
    sums: int
    """The test, the terms of an element, and the number of sums."""
    rms: float
    bias: float
    """Root mean square, and mean, of ``error / Σ|a·b|``."""
    relative: float
    """Mean of ``|error / Σ a·b|``."""


@dataclass(frozen=True)
class Accuracy(Record):
    """Errors by inner dimension, magnitude and terms; and the cycles of each precision."""

    size: int
    rows: int
    seed: int
    """Rows and columns of the results, rows of the array, and seed of the operands."""
    by_depth: tuple[Error, ...]
    by_magnitude: tuple[Error, ...]
    by_terms: tuple[TermsError, ...]
    """The errors."""
    cycles: dict[str, int]
    """Cycles of 512x512x512 on 128x128, by precision; from the formula."""


def measure(
    *, engine: str = "model", seed: int = 0, depths: tuple[int, ...] = DEPTHS, progress: Progress | None = None
) -> Accuracy:
    """Multiply matrices with each precision and compare with binary64."""
    product = load_product(engine)
    count = len(_OPERANDS) * len(depths) * (len(PASSES) + 1) + len(_EXPONENTS) * 2 * len(PASSES)
    done: list[Error] = []

    def note(error: Error) -> Error:
        done.append(error)
        if progress is not None:
            progress(len(done), count)
        return error

    by_depth = tuple(note(error) for error in _by_depth(product, seed, depths))
    by_magnitude = tuple(note(error) for error in _by_magnitude(product, seed))
    counts = {name: cycles(MxuConfig(), 512, 512, 512, name) for name in PASSES}
    return Accuracy(_SIZE, _ROWS, seed, by_depth, by_magnitude, tuple(_by_terms(product, seed)), counts)


def _by_depth(product: Callable[..., Any], seed: int, depths: tuple[int, ...]) -> Iterator[Error]:
    for operands in _OPERANDS:
        for k in depths:
            a, b = _draw(operands, k, seed)
            for precision in (*PASSES, _PLAIN):
                yield _error(product, a, b, operands=operands, precision=precision)


def _by_magnitude(product: Callable[..., Any], seed: int) -> Iterator[Error]:
    a, b = _draw("normal", DEPTHS[0], seed)
    for exponent in _EXPONENTS:
        scaled = np.ldexp(a, exponent), np.ldexp(b, -exponent)
        for subnormals in ("flush", "ieee"):
            for precision in PASSES:
                yield _error(
                    product, *scaled, operands="normal", precision=precision, subnormals=subnormals, exponent=exponent
                )


def _by_terms(product: Callable[..., Any], seed: int) -> Iterator[TermsError]:
    for operands, make in _TESTS.items():
        draw = np.random.default_rng(seed)
        made = [make(draw.normal(size=(_SUMS[i], 2 * _PAIRS)), draw, bool(i)) for i in (0, 1)]
        a, b = (matrix.astype(golden.DTYPES["bf16"]).astype(np.float64) for matrix in made)
        # Products of bf16 are exact in binary64, and fsum rounds their exact sum once.
        exact = np.array([[math.fsum((row * column).tolist()) for column in b] for row in a])
        for terms in _TERMS:
            error = (product(a.astype(np.float32), b.T.astype(np.float32), rows=_ROWS, terms=terms) - exact) / _UNIT
            share, relative = error / (abs(a) @ abs(b).T), abs(error[exact != 0] / exact[exact != 0])
            figures = np.sqrt(np.mean(share**2)), share.mean(), relative.mean()
            yield TermsError(operands, terms, error.size, *(round(float(figure), 4) for figure in figures))


def _draw(operands: str, k: int, seed: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    generator = np.random.default_rng([seed, k])
    a, b = (_OPERANDS[operands](generator, shape).astype(np.float32) for shape in ((_SIZE, k), (k, _SIZE)))
    return a, b


def _error(
    product: Callable[..., Any],
    a: npt.NDArray[np.float32],
    b: npt.NDArray[np.float32],
    *,
    operands: str,
    precision: str,
    subnormals: str = "flush",
    exponent: int = 0,
) -> Error:
    if precision == _PLAIN:
        got = golden.matmul(a, b, rows=_ROWS, operand="fp32", subnormals=subnormals)
    else:
        got = product(a, b, rows=_ROWS, precision=precision, subnormals=subnormals)
    wide = a.astype(np.float64), b.astype(np.float64)
    error = np.abs(got - wide[0] @ wide[1]) / (np.abs(wide[0]) @ np.abs(wide[1])) / _UNIT
    median, largest = (round(float(figure), 4) for figure in (np.median(error), error.max()))
    return Error(operands, a.shape[1], precision, subnormals, exponent, median, largest)


def to_markdown(accuracy: Accuracy) -> str:
    """Return the errors as tables."""
    names = {name: f"{name} ({len(PASSES[name])})" for name in PASSES} | {_PLAIN: "fp32 all the way"}
    head = " | ".join(names.values())
    lines = []
    for operands in dict.fromkeys(error.operands for error in accuracy.by_depth):
        drawn = "Normally distributed operands" if operands == "normal" else f"Operands {operands}"
        lines += [f"{drawn}: median error, largest error", "", f"| K | {head} |", "|--:|" + "--:|" * len(names)]
        table = {(error.k, error.precision): error for error in accuracy.by_depth if error.operands == operands}
        for k in dict.fromkeys(k for k, _ in table):
            lines.append(f"| {k} | " + " | ".join(_both(table[k, name]) for name in names) + " |")
        lines.append("")
    base = accuracy.cycles["default"]
    lines += [
        "| precision | passes | cycles of 512x512x512 on 128x128 | times |",
        "|---|--:|--:|--:|",
        *(f"| {name} | {len(PASSES[name])} | {n} | {n / base:.2f} |" for name, n in accuracy.cycles.items()),
        "",
        "Activations scaled by a power of two and weights by its inverse, K = 128, largest error:",
        "",
        "| activations | mode | " + " | ".join(PASSES) + " |",
        "|--:|---|" + "--:|" * len(PASSES),
    ]
    scaled = {(error.exponent, error.subnormals, error.precision): error for error in accuracy.by_magnitude}
    for exponent, mode in dict.fromkeys((exponent, mode) for exponent, mode, _ in scaled):
        errors = " | ".join(_number(scaled[exponent, mode, name].largest) for name in PASSES)
        lines.append(f"| 2^{exponent} | {mode} | {errors} |")
    return "\n".join([*lines, "", terms_to_markdown(accuracy.by_terms)])


def terms_to_markdown(errors: Sequence[TermsError]) -> str:
    """Return a table of errors by terms."""
    tests = {name: [error for error in errors if error.operands == name] for name in _TESTS}
    rows = {name: [_beside(entry, test[0]) for entry in test] for name, test in tests.items()}
    rows["the same, mean error of a sum by its value"] = [_number(entry.relative) for entry in [*tests.values()][-1]]
    lines = [
        f"{errors[0].sums:,} sums of {2 * _PAIRS} products, R = {_ROWS}: rms of error / Σ|a·b|, bias in brackets, "
        "in 2^-24; †: larger than one term's by three standard errors.",
        "",
        "| operands | N = " + " | ".join(map(str, _TERMS)) + " |",
        "|---|" + "--:|" * len(_TERMS),
        *(f"| {name} | {' | '.join(row)} |" for name, row in rows.items()),
    ]
    return "\n".join(lines) + "\n"


def _beside(error: TermsError, one: TermsError) -> str:
    """Return the figures, marked where they are larger than one term's by three standard errors."""
    most = 3 * error.rms / math.sqrt(error.sums)
    rms, bias = math.sqrt(2) * (error.rms - one.rms) > most, abs(error.bias) - abs(one.bias) > most
    return f"{error.rms:.3f}{'†' * rms} ({error.bias:+z.2f}{'†' * bias})"


def _both(error: Error) -> str:
    return f"{_number(error.median)}, {_number(error.largest)}"


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
