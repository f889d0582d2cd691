"""Errors of products: each precision, against binary64 and beside fp32 all the way."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
class Accuracy:
    """Errors by inner dimension, and by magnitude; and the cycles of each precision."""

    size: int
    rows: int
    seed: int
    """Rows and columns of the results, rows of the array, and seed of the operands."""
    by_depth: tuple[Error, ...]
    by_magnitude: tuple[Error, ...]
    """The errors."""
    cycles: dict[str, int]
    """Cycles of 512x512x512 on 128x128, by precision; from the formula."""

    def to_json(self) -> str:
        """Return the errors as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def of_json(cls, text: str) -> "Accuracy":
        """Return the errors that :meth:`to_json` wrote."""
        fields = json.loads(text)
        return cls(
            **fields | {name: tuple(Error(**error) for error in fields[name]) for name in ("by_depth", "by_magnitude")}
        )


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
    return Accuracy(
        _SIZE, _ROWS, seed, by_depth, by_magnitude, {name: cycles(MxuConfig(), 512, 512, 512, name) for name in PASSES}
    )


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
    return Error(
        operands,
        a.shape[1],
        precision,
        subnormals,
        exponent,
        round(float(np.median(error)), 4),
        round(float(error.max()), 4),
    )


def to_markdown(accuracy: Accuracy) -> str:
    """Return the errors as tables."""
    names = {name: f"{name} ({len(PASSES[name])})" for name in PASSES} | {_PLAIN: "fp32 all the way"}
    head = " | ".join(names.values())
    lines = []
    for operands in dict.fromkeys(error.operands for error in accuracy.by_depth):
        drawn = "Normally distributed operands" if operands == "normal" else f"Operands {operands}"
        lines += [f"{drawn}: median error, largest error", "", f"| K | {head} |", "|--:|" + "--:|" * len(names)]
        found = {(error.k, error.precision): error for error in accuracy.by_depth if error.operands == operands}
        for k in dict.fromkeys(k for k, _ in found):
            lines.append(f"| {k} | " + " | ".join(_both(found[k, name]) for name in names) + " |")
        lines.append("")
    base = accuracy.cycles["default"]
    lines += [
        "| precision | passes | cycles of 512x512x512 on 128x128 | times |",
        "|---|--:|--:|--:|",
        *(
            f"| {name} | {len(PASSES[name])} | {count} | {count / base:.2f} |"
            for name, count in accuracy.cycles.items()
        ),
        "",
    ]
    lines += [
        "Activations scaled by a power of two and weights by its inverse, K = 128, largest error:",
        "",
        "| activations | mode | " + " | ".join(PASSES) + " |",
        "|--:|---|" + "--:|" * len(PASSES),
    ]
    scaled = {(error.exponent, error.subnormals, error.precision): error for error in accuracy.by_magnitude}
    for exponent, mode in dict.fromkeys((exponent, mode) for exponent, mode, _ in scaled):
        errors = " | ".join(_number(scaled[exponent, mode, name].largest) for name in PASSES)
        lines.append(f"| 2^{exponent} | {mode} | {errors} |")
    return "\n".join(lines) + "\n"


def _both(error: Error) -> str:
    return f"{_number(error.median)}, {_number(error.largest)}"


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
