"""Mutants: designs with one small mistake each, made by Yosys's ``mutate``.

A mistake is an inverted bit at a port of a cell, a constant one, or one that depends on another bit of the same
port. All mutants of a design are in one netlist, and an input chooses one by its number; 0 chooses none.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from openmxu import yosys
from openmxu.export.verilog import to_rtlil, write_nor
from openmxu.yosys.equivalence import is_equivalent
from openmxu.yosys.netlist import Netlist, read_netlist

PLUSARG = "mutant"
"""The simulator's argument that chooses the mutant, ``+mutant=3``."""

_PORT = "mutant"

# The first: see openmxu.export.verilog. The second: where a mistake makes one bit of a signal depend on another one,
# Verilator may see a loop, which makes it slower.
_LINT = "/* verilator lint_off WIDTHEXPAND */\n/* verilator lint_off UNOPTFLAT */\n"


@dataclass(frozen=True)
class Mutants:
    """Mutants of a design, numbered from 1."""

    top: str
    """Name of the design's module."""
    rtlil: str
    """The design itself."""
    mistakes: tuple[str, ...]
    """Yosys's command for each."""
    without: tuple[str, ...] = ()
    """Modules in which no mistakes are made, as Yosys's patterns of names."""

    def describe(self, number: int) -> str:
        """The place and the kind of the mistake in mutant ``number``."""
        words = dict(re.findall(r"-(\w+) (\S+)", self.mistakes[number - 1]))
        where = f"{words['module']} {words['cell']} {words['port']}[{words['portbit']}]"
        wire = f" ({words['wire']}[{words['wirebit']}])" if "wire" in words else ""
        by = f" by [{words['ctrlbit']}]" if "ctrlbit" in words else ""
        return f"{words['mode']}{by} at {where}{wire}"

    def gates(self) -> Netlist:
        """All mutants as a flat netlist of Yosys's simplest cells, with an input ``mutant``."""
        return self._gates("")

    def one(self, number: int) -> str:
        """RTLIL of mutant ``number`` alone."""
        return yosys.produce(f"{_READ}\n{self.mistakes[number - 1]}\nwrite_rtlil /job/result\n", self.rtlil)

    def verilog(self) -> str:
        """All mutants as Verilog with the ports of the design; ``+mutant=NUMBER`` chooses one in a simulation."""
        text = yosys.produce(f"{self.script}\nwrite_verilog -noattr /job/result\n", self.rtlil)
        start = text.index(f"module {self.top}(")
        end = text.index("endmodule", start)
        module, ports = re.subn(rf"(module [^;]*), {_PORT}\b", r"\1", text[start:end], count=1)
        module, declarations = re.subn(
            rf"  input (\[\d+:0\] )?{_PORT};\n  wire (\[\d+:0\] )?{_PORT};\n",
            rf'  reg \1{_PORT};\n  initial if (!$value$plusargs("{PLUSARG}=%d", {_PORT})) {_PORT} = 0;\n',
            module,
        )
        assert ports == declarations == 1, "Yosys writes ports in another way"
        return f"{_LINT}{write_nor(text[:start] + module + text[end:])}"

    def is_equivalent(self, number: int) -> bool:
        """Whether mutant ``number`` is proven to behave like the design, from any state; see
        :func:`~openmxu.yosys.equivalence.is_equivalent`.
        """
        alone = replace(self, mistakes=self.mistakes[number - 1 : number])
        # Modules without mistakes may be left out, if their inputs are equal: that is quicker.
        cuts = [f"blackbox {' '.join(self.without)}", ""] if self.without else [""]
        with suppress(yosys.SynthesisError):  # ABC's stack is too small for some units as a whole
            return any(is_equivalent(alone._gates(cut), _PORT) for cut in cuts)
        return False

    def _gates(self, boxes: str) -> Netlist:
        script = (
            f"{self.script}\n{boxes}\nsynth -flatten -noabc -top {self.top}\n"
            f"dfflegalize -cell $_DFF_P_ 01\nabc -g AND,OR,XOR\n{_WRITE}"
        )
        return read_netlist(yosys.produce(script, self.rtlil), self.top)

    @property
    def script(self) -> str:
        """Commands that read all mutants as one design with an input ``mutant``, from :attr:`rtlil`."""
        width = len(self.mistakes).bit_length()
        numbered = (
            mistake.replace("mutate", f"mutate -ctrl {_PORT} {width} {number}", 1)
            for number, mistake in enumerate(self.mistakes, start=1)
        )
        return "\n".join([_READ, *numbered])


_READ = "read_rtlil /job/design.il"
_WRITE = "write_json /job/result\n"


def mutants(component: Any, count: int, seed: int, *, flat: bool = False, without: Sequence[str] = ()) -> Mutants:
    """Mutants of a component."""
    top = component.module_name
    # Amaranth repeats a condition on a whole word for each bit; merged, a mistake is made in the condition itself.
    simplify = "flatten\nopt -full\nopt_clean -purge\n" if flat else "opt_merge\nopt_clean\n"
    rtlil = yosys.produce(
        f"{_READ}\nhierarchy -check -top {top}\nproc\n{simplify}write_rtlil /job/result\n", to_rtlil(component)
    )
    # The initial contents of a memory are no wire.
    selection = " ".join(["*", "t:$meminit* %d", *(f"{pattern} %d" for pattern in without)])
    listed = yosys.produce(f"{_READ}\nmutate -list {count} -seed {seed} -o /job/result {selection}\n", rtlil)
    return Mutants(top, rtlil, tuple(listed.splitlines()), tuple(without))
