"""Components as SMT-LIB, written by Yosys from their RTL before any mapping to gates."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from openmxu import yosys
from openmxu.export.verilog import to_rtlil
from openmxu.spec.forms import AREA

REGISTERS = "registers"
"""A wire of every system with registers: all registers, concatenated."""


@dataclass(frozen=True)
class System:
    """A component as states and steps between them."""

    name: str
    """Name of its module."""
    text: str
    """SMT-LIB definitions. A state holds inputs, registers, and wires that were cut; every wire is a function of it."""
    widths: Mapping[str, int]
    """The width of each wire."""

    def width(self, wire: str) -> int:
        """Bits of a wire, or of the part that ``[high:low]`` after its name selects."""
        name, _, bits = wire.partition("[")
        if name not in self.widths:
            raise ValueError(f"wire must be one of {', '.join(self.widths)}, not {name!r}")
        if not bits:
            return self.widths[name]
        high, low = bits.removesuffix("]").split(":")
        return int(high) - int(low) + 1

    def value(self, wire: str, cycle: int) -> str:
        """The bit vector on a wire, or on a part of it, in a cycle of :meth:`run`; raises as :meth:`width`."""
        width = self.width(wire)
        name, _, bits = wire.partition("[")
        value = f"(|{self.name}_n {name}| state-{cycle})"
        if bits:
            low = bits.removesuffix("]").split(":")[1]
            return f"((_ extract {int(low) + width - 1} {low}) {value})"
        # Yosys makes a truth value of a single bit.
        return f"(ite {value} #b1 #b0)" if width == 1 else value

    def run(self, cycles: int) -> str:
        """A run over ``cycles`` cycles from any state, not only from those that follow a reset."""
        states = [f"(declare-const state-{cycle} |{self.name}_s|)" for cycle in range(cycles + 1)]
        steps = [f"(assert (|{self.name}_t| state-{cycle} state-{cycle + 1}))" for cycle in range(cycles)]
        return "\n".join([self.text, *states, *steps, ""])


def transition_system(component: Any, *, form: str = AREA, cut: str | None = None, change: str = "") -> System:
    """The transition system of ``component`` in a form, one of :data:`~openmxu.spec.forms.FORMS`."""
    top = component.module_name
    if change:  # wires that nothing reads can still be queried
        change = f"setattr -set keep 1 w:*\n{change}"
    text = yosys.produce(
        f"""{_flattened(top)}
{f"cutpoint {top}/w:{cut}" if cut else ""}
{change}
memory_map
opt_clean
dffunmap
write_smt2 -stbv -wires /job/result
""",
        to_rtlil(component, form=form),
    )
    widths = {name: int(width) for name, width in re.findall(r"^; yosys-smt2-wire (\S+) (\d+)$", text, re.MULTILINE)}
    # The registers are the values that a step gives to the next state.
    registers = re.findall(r"\((\|\S+\|) next_state\)", text)
    if registers:
        sizes = dict(re.findall(r"^\(define-fun (\S+) .* \(_ BitVec (\d+)\) \(\(_ extract", text, re.MULTILINE))
        widths[REGISTERS] = sum(int(sizes[register]) for register in registers)
        value = reduce("(concat {} {})".format, (f"({register} state)" for register in registers))
        text += f"(define-fun |{top}_n {REGISTERS}| ((state |{top}_s|)) (_ BitVec {widths[REGISTERS]}) {value})\n"
    return System(top, text, widths)


def mutants(component: Any, count: int, *, seed: int, inside: str = "") -> list[str]:
    """Small changes of ``component``, each a line of script for :func:`transition_system`; none of clocks, which a
    transition system does not model.

    A mutant has one bit between two cells inverted, stuck, or inverted while another bit is set. Some are
    equivalent to the component. The same numbers give the same mutants.
    """
    selection = f"c:*{inside}.*" if inside else ""
    script = f"{_flattened(component.module_name)}\nmutate -list {count} -seed {seed} -o /job/result {selection}\n"
    listed = yosys.produce(script, to_rtlil(component)).splitlines()
    return [line for line in listed if "-port CLK " not in line]


def _flattened(top: str) -> str:
    """The start of each script: mutants refer to the names that it gives to cells."""
    return f"read_rtlil /job/design.il\nprep -flatten -top {top}"
