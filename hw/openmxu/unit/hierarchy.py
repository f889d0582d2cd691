"""Repeated submodules: built in place, or one module that is written once and referred to."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Placer(Protocol):
    """A platform that replaces equal components by references to a module that it writes once."""

    def references(self, component: Any, count: int) -> Sequence[Any]:
        """``count`` components with the ports of ``component``."""


def repeat(platform: object, make: Callable[[], Any], count: int) -> Sequence[Any]:
    """``count`` equal components from ``make``, or the platform's references to one of them.

    Amaranth makes a module of every submodule instance. A 128x128 array of processing elements would be
    16384 equal modules and take minutes; the Verilog export passes a :class:`Placer` as its platform
    instead, and each repeated component is elaborated and written once.
    """
    if isinstance(platform, Placer):
        return platform.references(make(), count)
    return [make() for _ in range(count)]
