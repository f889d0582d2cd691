"""Common parts of the packages for frameworks: how products are computed, and the error for those that are not."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32, FloatFormat
from openmxu.spec.passes import find_precision
from openmxu.spec.stages import TERMS
from openmxu_sim.engines import model
from openmxu_sim.engines.model.placed import Side, placed_products, whole_products
from openmxu_sim.golden.parameters import Parameters
from openmxu_sim.golden.setup import check_seed, check_setup
from openmxu_sim.golden.specifications import find_operand, find_sum
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


def our_name(spec: Any) -> Any:
    """Return our name of a format that others call differently or that is a type of theirs; else what was given."""
    name = spec
    if not isinstance(spec, str):
        with suppress(TypeError):
            is_torch = type(spec).__module__ == "torch"
            name = str(spec).removeprefix("torch.") if is_torch else spec and np.dtype(spec).name
    if not isinstance(name, str):
        return spec
    fmt, *modifiers = name.split("/")
    return "/".join((_NAMES[fmt], *modifiers)) if fmt in _NAMES else spec


class Numerics(Parameters):
    """Parameters on which the bits of products depend, with the formats' roles in derivatives.

    Formats may have the names that others give them, such as ``"bfloat16"``, ``"e4m3"`` or ``torch.float8_e5m2``.
    """

    def checked(self) -> "Numerics":
        """Return the same numerics, checked, with our names of formats and of the precision."""
        formats = "operand", "weight", "gradient", "accumulate", "between"
        names = {name: our_name(getattr(self, name)) for name in formats}
        same = replace(self, **names, precision=find_precision(self.precision), seed=check_seed(self.seed))
        if same.gradient is not None:
            find_operand(same.gradient, "gradient")
        elif same.weight is not None:
            same = replace(same, gradient=same.operand)
        for one in (same, same.of_gradient(first=True), same.of_gradient(second=True)):
            setup = check_setup(**one.options())
        return replace(same, rows=setup.rows, terms=setup.terms)

    def options(self) -> dict[str, Any]:
        """Return the parameters of the engine ``model`` for a product."""
        return {name: value for name, value in vars(self).items() if name != "gradient"}

    def swapped(self) -> "Numerics":
        """Return the numerics of a product whose second operand comes first."""
        return self if self.weight is None else replace(self, operand=self.weight, weight=self.operand)

    def of_gradient(self, *, first: bool = False, second: bool = False) -> "Numerics":
        """Return the numerics of a product in which one operand, or both, are gradients."""
        if self.gradient is None or not (first or second):
            return self
        a, b = self.operand, self.weight_format
        return replace(self, operand=self.gradient if first else a, weight=self.gradient if second else b)

    @property
    def weight_format(self) -> str:
        """Format of the second operand."""
        return self.operand if self.weight is None else self.weight

    @property
    def is_plain(self) -> bool:
        """Whether operands are converted, and sums rounded, in no other way than hardware does."""
        return _are_plain(self.operand, self.weight_format, self.accumulate, self.between)

    @property
    def is_stochastic(self) -> bool:
        """Whether operands, gradients among them, or sums are rounded at random."""
        sides, sums = (self.operand, self.weight, self.gradient), (self.accumulate, self.between)
        of_sums = (find_sum(one).rounding == "stochastic" for one in sums if one is not None)
        return any(find_operand(side).stochastic for side in sides if side is not None) or any(of_sums)

    def unit(self, columns: int, stages: int) -> MxuConfig:
        """Return a unit that computes these products, and takes fp32.

        Where no hardware has their bits, it is the nearest one: with the format that holds what is multiplied, and with
        at most 8 terms.
        """
        return MxuConfig(
            rows=self.rows,
            columns=columns,
            stages=stages,
            subnormals=self.subnormals,
            operand=FloatFormat.parse(find_operand(self.operand).format.name, "operand"),
            weight=FloatFormat.parse(find_operand(self.weight_format).format.name, "weight"),
            source=FP32,
            terms=min(self.terms, max(TERMS)),
        )


@lru_cache(maxsize=256)
def _are_plain(operand: str, weight: str, accumulate: str, between: str | None) -> bool:
    sides = find_operand(operand).is_plain and find_operand(weight).is_plain
    return sides and find_sum(accumulate).is_plain and (between is None or find_sum(between).is_plain)


class Work(NamedTuple):
    """Products of one kind: the operator that asks for them, their number, their sizes, the layer's name, and, where
    errors are measured, whether they are ``forward`` or ``backward``.

    Weights are the (K, N) matrix, activations the (M, K) one: of a convolution, M counts the places of all images.
    """

    operator: str
    products: int
    m: int
    k: int
    n: int
    layer: str = ""
    direction: str = ""


class Product(NamedTuple):
    """Products just computed, of one size."""

    products: int
    m: int
    k: int
    n: int
    numerics: Numerics
    a: Floats
    b: Floats
    result: Floats | None = None
    """Operands and results: stacks of matrices, (P, M, K), (P, K, N) and (P, M, N), if there is a result."""


@dataclass(frozen=True)
class Multiplier:
    """Products for one operator of a framework, on the engine ``model``."""

    numerics: Numerics
    """Parameters that decide their bits."""
    threads: int | None
    """Most threads, as in :func:`openmxu_sim.engines.model.products`."""
    seen: Callable[[Product], object]
    """Called with all products."""
    largest: Callable[[Numerics, Floats, Floats], tuple[float | None, float | None]] | None = None
    """Magnitudes that scales of whole operands are computed from; ``None``: their own."""
    measures: bool = False
    """Whether :attr:`seen` needs matrices and results."""

    def of_gradient(self, *, first: bool = False, second: bool = False) -> "Multiplier":
        """Return a multiplier of gradients, see :meth:`Numerics.of_gradient`."""
        return replace(self, numerics=self.numerics.of_gradient(first=first, second=second))

    def swapped(self) -> "Multiplier":
        """Return a multiplier whose operands change places."""
        return replace(self, numerics=self.numerics.swapped())

    def of_activations(self) -> "Multiplier":
        """Return a multiplier of two operands in the format of first ones, such as an image and its gradient."""
        return replace(self, numerics=replace(self.numerics, weight=None))

    def stacks(self, a: Floats, b: Floats) -> Floats:
        """Multiply (P, M, K) activations by (P, K, N) weights: (P, M, N)."""
        (count, m, k), bits = a.shape, (a.view(np.uint32), b.view(np.uint32))
        result = model.products(*bits, **self._options(self.numerics, a, b), threads=self.threads)
        self.seen(Product(count, m, k, b.shape[2], self.numerics, a, b, result))
        return result

    def placed(self, a: Side, b: Side, out: Side, groups: int, seen: "Seen", *, swapped: bool, **how: Any) -> None:
        """Multiply operands that lie anywhere, as :func:`openmxu_sim.engines.model.placed.placed_products` does.

        Those that are scaled, or whose errors are measured, are copied into matrices first. Weights may come first,
        ``swapped``; in ``seen``, activations do.
        """
        numerics = self.numerics.swapped() if swapped else self.numerics
        if numerics.is_plain and not self.measures:
            placed_products(a, b, out, groups, **how, **numerics.options(), threads=self.threads)
            self.seen(Product(*seen.sizes, self.numerics, *seen.operands))
            return
        options = self._options(numerics, a.array, b.array)
        stacks = whole_products(a, b, out, groups, **how, **options, threads=self.threads)
        self.seen(Product(*seen.sizes, numerics, *stacks))

    def _options(self, numerics: Numerics, a: Floats, b: Floats) -> dict[str, Any]:
        return numerics.options() | ({"largest": self.largest(numerics, a, b)} if self.largest else {})


class Seen(NamedTuple):
    """Sizes of products, as in :class:`Product`, and arrays of their activations and weights."""

    sizes: tuple[int, int, int, int]
    operands: tuple[Floats, Floats]
