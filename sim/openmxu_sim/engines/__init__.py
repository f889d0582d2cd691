"""Several ways to run a unit, with the same bits from each.

=============  ==========================================================================================
``golden``     The definition, in numpy. No clock: cycles come from the formula.
``pysim``      The RTL in Amaranth's own simulator. Needs nothing; for small arrays and waveforms.
``verilator``  The RTL as Verilog, compiled by Verilator and driven by cocotb. Needs a C++ compiler.
``icarus``     The RTL as Verilog in Icarus Verilog, driven by cocotb. Needs ``iverilog``.
=============  ==========================================================================================
"""

from importlib import import_module

from openmxu.config import MxuConfig
from openmxu_sim.engines.protocol import Engine

__all__ = ["CLOCKED", "ENGINES", "choose", "load"]

ENGINES = ("golden", "pysim", "icarus", "verilator")
"""Names of all engines."""

CLOCKED = ("pysim", "icarus", "verilator")
"""Those that run the hardware clock by clock."""

_COMPILED_CELLS = 64
"""Processing elements up to which the unit runs fast enough in Verilator to be waited for."""


def choose(config: MxuConfig, *, clocked: bool = False) -> tuple[str, str]:
    """The engine that ``auto`` means for a unit, and why.

    Parameters
    ----------
    config
        The unit.
    clocked
        Whether a clock is needed, for stalls or waveforms.
    """
    from openmxu_sim.cosim.simulators import find_simulator

    cells = config.rows * config.columns
    if cells <= _COMPILED_CELLS and find_simulator("verilator") is not None:
        return "verilator", f"auto: a {config.rows}x{config.columns} array compiles quickly"
    if clocked:
        return "pysim", "auto: it has a clock and needs no compiler"
    if cells <= _COMPILED_CELLS:
        return "golden", "auto: there is no C++ compiler for verilator"
    return "golden", f"auto: more than {_COMPILED_CELLS} processing elements"


def load(name: str) -> Engine:
    """The clocked engine called ``name``."""
    engine: Engine = import_module(f"openmxu_sim.engines.{name}").run
    return engine
