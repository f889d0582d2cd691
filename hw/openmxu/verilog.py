"""Export: a component as plain Verilog or RTLIL, each repeated module written once."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from amaranth.back import rtlil, verilog
from amaranth.hdl import ClockSignal, Instance, ResetSignal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

__all__ = ["to_rtlil", "to_verilog"]

_HEADER = """\
/* Written by OpenMXU. Licensed under the Apache License, Version 2.0.

   Amaranth leaves out leading zeros of the operands of sums and comparisons. Verilog fills them up to the
   same value, but Verilator, whose warnings are errors by default, would warn of each: */
/* verilator lint_off WIDTHEXPAND */
"""


class _Reference(wiring.Component):
    """A component that is a module elsewhere: the same ports, and an instance in place of the logic."""

    def __init__(self, component: Any, *, clocked: bool) -> None:
        self._module_name = component.module_name
        self._clocked = clocked
        super().__init__(component.signature)

    def elaborate(self, platform: object) -> Instance:
        """An instance of the module."""
        ports: dict[str, Value] = {}
        if self._clocked:
            ports |= {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        for name, member in self.signature.members.items():
            ports[("i_" if member.flow == In else "o_") + name] = Value.cast(getattr(self, name))
        return Instance(self._module_name, **ports)


class _Library:
    """The platform under which repeated components become references; collects their modules' texts."""

    def __init__(self, convert: Callable[..., str]) -> None:
        self._convert = convert
        self.modules: dict[str, str] = {}

    def references(self, component: Any, count: int) -> Sequence[_Reference]:
        name = component.module_name
        text = self.convert(component, name)
        if self.modules.setdefault(name, text) != text:
            raise AssertionError(f"two different modules are called {name}")
        # Amaranth gives a module that has registers anywhere both ports, one without neither.
        clocked = re.search(r"^\s*(wire width 1 )?input (\d+\s+\\)?clk;?$", text, re.MULTILINE) is not None
        return [_Reference(component, clocked=clocked) for _ in range(count)]

    def convert(self, component: Any, name: str) -> str:
        return self._convert(component, name=name, platform=self)


def _export(convert: Callable[..., str], component: Any, name: str | None) -> str:
    library = _Library(convert)
    name = name or component.module_name
    top = library.convert(component, name)
    if name in library.modules:
        raise ValueError(f"name must not be that of a module inside, {name!r}")
    return "\n".join([*library.modules.values(), top])


def to_rtlil(component: Any, *, name: str | None = None) -> str:
    """RTLIL text of ``component``, its own module last.

    Parameters
    ----------
    component
        Any component of this package.
    name
        Name of its module; by default its ``module_name``.

    Raises
    ------
    ValueError
        A module inside is called ``name``.
    """
    return _export(partial(rtlil.convert, emit_src=False), component, name)


def to_verilog(component: Any, *, name: str | None = None) -> str:
    """Verilog text of ``component``, its own module last; parameters as for :func:`to_rtlil`.

    Clock and reset (synchronous, active high) are called ``clk`` and ``rst``; members of a stream are
    joined to it by two underscores, as in ``weights__valid``.
    """
    convert = partial(verilog.convert, emit_src=False, strip_internal_attrs=True)
    text = _export(convert, component, name)
    return f"{_HEADER}\n{text}\n/* verilator lint_on WIDTHEXPAND */\n"
