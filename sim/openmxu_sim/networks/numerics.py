"""Common parts of the packages for frameworks: how products are computed, and the error for those that are not."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32, FloatFormat
from openmxu.spec.passes import find_precision
from openmxu_sim import golden
from openmxu_sim.engines import model
from openmxu_sim.engines.model.convolution import Side, placed_products
from openmxu_sim.golden.arithmetic import check_subnormals
from openmxu_sim.golden.matrix import check_precision, check_terms
from openmxu_sim.operands.aliases import Floats


class EscapeError(RuntimeError):
    """A product would be computed elsewhere than on the unit."""


_NAMES = {
    **{"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"},
    **{
        "float8_e4m3fn": "fp8_e4m3",
        "float8_e5m2": "fp8_e5m2",
        "e4m3fn": "fp8_e4m3",
        "e4m3": "fp8_e4m3",
        "e5m2": "fp8_e5m2",
    },
    **{"float8_e4m3": "e4f3", "float8_e3m4": "e3f4"},  # these have infinities
}
"""Our names of formats, by the names that others give them."""


def _our_name(fmt: Any) -> Any:
    """Return our name of a format that others call differently or that is a type of theirs; else what was given."""
    name = fmt
    if not isinstance(fmt, str):
        with suppress(TypeError):
            name = str(fmt).removeprefix("torch.") if type(fmt).__module__ == "torch" else fmt and np.dtype(fmt).name
    return _NAMES.get(name, fmt) if isinstance(name, str) else fmt


class Numerics(NamedTuple):
    """Parameters on which the bits of a product depend, as in :func:`openmxu_sim.simulate`.

    Formats may have the names that others give them, such as ``"bfloat16"``, ``"e4m3"`` or ``torch.float8_e5m2``.
    """

    operand: str = "bf16"
    accumulate: str = "fp32"
    precision: str = "default"
    subnormals: str = "flush"
    rows: int = 128
    terms: int = 1

    def checked(self) -> "Numerics":
        """Return the same numerics, checked, with our names of formats and of the precision."""
        operand, accumulate = _our_name(self.operand), _our_name(self.accumulate)
        golden.find_format(operand, "operand")
        golden.find_format(accumulate, "accumulate")
        precision = find_precision(self.precision)
        check_precision(precision, operand, accumulate)
        check_subnormals(self.subnormals)
        rows = golden.check_count(self.rows, "rows")
        terms = check_terms(self.terms, rows, self.subnormals)
        return Numerics(operand, accumulate, precision, self.subnormals, rows, terms)

    def unit(self, columns: int, stages: int) -> MxuConfig:
        """Return a unit that computes these bits, and takes fp32."""
        return MxuConfig(
            rows=self.rows,
            columns=columns,
            stages=stages,
            subnormals=self.subnormals,
            operand=FloatFormat.parse(self.operand, "operand"),
            source=FP32,
            terms=self.terms,
        )


class Work(NamedTuple):
    """Products of one kind: the operator that asks for them, their number, their sizes, and the layer's name.

    Weights are the (K, N) matrix, activations the (M, K) one: of a convolution, M counts the places of all images.
    """

    operator: str
    products: int
    m: int
    k: int
    n: int
    layer: str = ""


@dataclass(frozen=True)
class Multiplier:
    """Products for one operator of a framework, on the engine ``model``."""

    numerics: Numerics
    """Parameters that decide their bits."""
    threads: int | None
    """Most threads, as in :func:`openmxu_sim.engines.model.products`."""
    seen: Callable[[int, int, int, int, Floats, Floats], object]
    """Called with the number of products, their M, K and N, and with activations and weights."""

    def stacks(self, a: Floats, b: Floats) -> Floats:
        """Multiply (P, M, K) activations by (P, K, N) weights: (P, M, N)."""
        (count, m, k), n = a.shape, b.shape[2]
        self.seen(count, m, k, n, a, b)
        return self._multiply(a, b)

    def placed(self, a: Side, b: Side, out: Side, groups: int, **how: Any) -> None:
        """Multiply operands that lie anywhere, as :func:`openmxu_sim.engines.model.convolution.placed_products` does.

        The caller says what they are to :attr:`seen`.
        """
        placed_products(a, b, out, groups, **how, **self.numerics._asdict(), threads=self.threads)

    def _multiply(self, a: Floats, b: Floats) -> Floats:
        return model.products(a.view(np.uint32), b.view(np.uint32), **self.numerics._asdict(), threads=self.threads)
