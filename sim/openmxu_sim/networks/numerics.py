"""Common parts of the packages for frameworks: how products are computed, and the error for those that are not."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32, FloatFormat
from openmxu.spec.passes import find_precision
from openmxu.spec.stages import TERMS
from openmxu_sim import golden
from openmxu_sim.engines import model
from openmxu_sim.golden.setup import check_setup
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


class Numerics(NamedTuple):
    """Parameters on which the bits of a product depend, as in :func:`openmxu_sim.golden.matmul`.

    Formats may have the names that others give them, such as ``"bfloat16"``, ``"e4m3"`` or ``torch.float8_e5m2``.
    """

    operand: str = "bf16"
    accumulate: str = "fp32"
    precision: str = "default"
    subnormals: str = "flush"
    rows: int = 128
    terms: int = 1
    weight: str | None = None
    """Format of the second operand; ``None``: of the first one."""
    gradient: str | None = None
    """Format of gradients, in products that derivatives are made of; ``None``: that of the operand in their place."""
    between: str | None = None
    """Format in which tiles are added; ``None``: ``accumulate``."""
    seed: int = 0
    """Seed of stochastic rounding."""

    def checked(self) -> "Numerics":
        """Return the same numerics, checked, with our names of formats and of the precision."""
        formats = "operand", "weight", "gradient", "accumulate", "between"
        names = {name: our_name(getattr(self, name)) for name in formats}
        same = self._replace(**names, precision=find_precision(self.precision))
        for one in (same, same.of_gradient(first=True), same.of_gradient(second=True)):
            setup = check_setup(**{name: value for name, value in one.options().items() if name != "seed"})
        return same._replace(rows=setup.rows, terms=setup.terms, seed=golden.check_count(self.seed, "seed", 0))

    def options(self) -> dict[str, Any]:
        """Return the parameters of the engine ``model`` for a product."""
        return {name: value for name, value in self._asdict().items() if name != "gradient"}

    def swapped(self) -> "Numerics":
        """Return the numerics of a product whose second operand comes first."""
        return self if self.weight is None else self._replace(operand=self.weight, weight=self.operand)

    def of_gradient(self, *, first: bool = False, second: bool = False) -> "Numerics":
        """Return the numerics of a product in which one operand, or both, are gradients."""
        if self.gradient is None or not (first or second):
            return self
        a, b = self.operand, self.weight or self.operand
        return self._replace(operand=self.gradient if first else a, weight=self.gradient if second else b)

    @property
    def is_plain(self) -> bool:
        """Whether operands are converted, and sums rounded, in no other way than hardware does."""
        sides = self.operand, self.weight or self.operand
        sums = self.accumulate, self.between or self.accumulate
        return all(find_operand(side).is_plain for side in sides) and all(find_sum(one).is_plain for one in sums)

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
            weight=FloatFormat.parse(find_operand(self.weight or self.operand).format.name, "weight"),
            source=FP32,
            terms=min(self.terms, max(TERMS)),
        )


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
    result: Floats
    """Stacks of operands and results, (P, M, K), (P, K, N) and (P, M, N); of images these have other sizes."""


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

    def of_gradient(self, *, first: bool = False, second: bool = False) -> "Multiplier":
        """Return a multiplier of gradients, see :meth:`Numerics.of_gradient`."""
        return replace(self, numerics=self.numerics.of_gradient(first=first, second=second))

    def swapped(self) -> "Multiplier":
        """Return a multiplier whose operands change places."""
        return replace(self, numerics=self.numerics.swapped())

    def of_activations(self) -> "Multiplier":
        """Return a multiplier of two operands in the format of first ones, such as an image and its gradient."""
        return replace(self, numerics=self.numerics._replace(weight=None))

    def stacks(self, a: Floats, b: Floats) -> Floats:
        """Multiply (P, M, K) activations by (P, K, N) weights: (P, M, N)."""
        return self._multiply(a, b, self.numerics, (len(a), *a.shape[1:], b.shape[2]))

    def images(self, weights: Floats, images: Floats) -> Floats:
        """Multiply (groups, N, K) weights by (images, groups, K, places) activations: (images, groups, N, places).

        On the unit, all images are the rows of one product for each group.
        """
        (count, groups, k, places), n = images.shape, weights.shape[1]
        spread = np.broadcast_to(weights, (count, groups, n, k)).reshape(-1, n, k)
        sizes = groups, count * places, k, n
        result = self._multiply(spread, images.reshape(-1, k, places), self.numerics.swapped(), sizes)
        return result.reshape(count, groups, n, places)

    def _multiply(self, a: Floats, b: Floats, numerics: Numerics, sizes: tuple[int, int, int, int]) -> Floats:
        bits = a.view(np.uint32), b.view(np.uint32)
        options = numerics.options() | ({"largest": self.largest(numerics, a, b)} if self.largest else {})
        result = model.products(*bits, **options, threads=self.threads)
        self.seen(Product(*sizes, numerics, a, b, result))
        return result
