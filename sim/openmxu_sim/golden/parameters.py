"""Parameters on which the bits of a product depend: names, types and defaults, for everything that multiplies."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypedDict, TypeVar, Unpack

__all__ = ["NAMES", "DerivativeOptions", "Parameters", "ProductOptions", "UnitOptions", "Unpack", "with_options"]


@dataclass(frozen=True)
class Parameters:
    """Parameters on which the bits of a product depend: the table in :doc:`/explanation/numerics` describes them."""

    operand: str = "bf16"
    accumulate: str = "fp32"
    precision: str = "default"
    subnormals: str = "flush"
    rows: int = 128
    terms: int = 1
    weight: str | None = None
    gradient: str | None = None
    between: str | None = None
    seed: int = 0


NAMES = tuple(field.name for field in fields(Parameters))


class ProductOptions(TypedDict, total=False):
    """Keywords of a product, but for ``rows``. Packages for frameworks take formats and seeds of those, too."""

    operand: str | Any
    accumulate: str | Any
    precision: str | Any
    subnormals: str
    terms: int
    weight: str | Any | None
    between: str | Any | None
    seed: int | Any


class UnitOptions(ProductOptions, total=False):
    """Keywords of a product on a unit."""

    rows: int


class DerivativeOptions(UnitOptions, total=False):
    """Keywords of a product with derivatives."""

    gradient: str | Any | None


_Function = TypeVar("_Function", bound=Callable[..., Any])


def with_options(options: type) -> Callable[[_Function], _Function]:
    """Show ``options``, a :class:`~typing.TypedDict`, in the signature of a function that takes them; refuse others."""
    kinds, usual = options.__annotations__, Parameters()
    shown = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(usual, name), annotation=kind)
        for name, kind in kinds.items()
    ]

    def decorate(function: Any) -> Any:
        own = signature(function)
        parameters = [each for each in own.parameters.values() if each.kind is not Parameter.VAR_KEYWORD] + shown
        names = frozenset(each.name for each in parameters)

        @wraps(function)
        def checked(*arguments: Any, **keywords: Any) -> Any:
            for name in keywords:
                if name not in names:
                    raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument {name!r}")
            return function(*arguments, **keywords)

        vars(checked)["__signature__"] = own.replace(parameters=parameters)
        return checked

    return decorate
