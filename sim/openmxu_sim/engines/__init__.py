"""Several ways to run a unit, with the same bits from each.

=============  ==========================================================================================
``golden``     The definition, in numpy. No clock: cycles come from the formula.
``model``      The same sums in the same order, compiled by numba (``openmxu[model]``). No clock either.
``pysim``      The RTL in Amaranth's own simulator. Needs nothing; for small arrays and waveforms.
``verilator``  The RTL as Verilog, compiled by Verilator and driven by cocotb. Needs a C++ compiler.
``icarus``     The RTL as Verilog in Icarus Verilog, driven by cocotb. Needs ``iverilog``.
``compiled``   The RTL's netlist as vector code: full size, cycle by cycle, in seconds. Needs a C compiler.
=============  ==========================================================================================
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from openmxu.config import MxuConfig
from openmxu.extras import install
from openmxu_sim.engines.protocol import Engine

__all__ = ["CLOCKED", "ENGINES", "choose", "load", "load_product", "require"]

ENGINES = ("golden", "model", "pysim", "icarus", "verilator", "compiled")
"""Names of all engines."""

CLOCKED = ("pysim", "icarus", "verilator", "compiled")
"""Those that run the hardware clock by clock."""

_VERILATOR_CELLS = 64
"""Processing elements up to which Verilator compiles the unit fast enough to be waited for."""


def choose(config: MxuConfig, *, clocked: bool = False) -> tuple[str, str]:
    """The engine that ``auto`` means for a unit, and why.

    ``compiled``, if its library is cached or can be built. Otherwise ``verilator``, if the unit is small and Verilator
    is installed. Otherwise ``pysim`` if a clock is needed, else ``model`` if numba is installed, else ``golden``.

    Parameters
    ----------
    config
        The unit.
    clocked
        Whether a clock is needed, for stalls or waveforms.
    """
    from openmxu_sim.cosim.simulators import find_simulator
    from openmxu_sim.engines.compiled.model import load_model
    from openmxu_sim.netlist.native import CompilationError, CompilerNotFoundError
    from openmxu_sim.netlist.rtlil import NetlistError

    try:
        load_model(config)
    except (CompilerNotFoundError, CompilationError, NetlistError, OSError) as error:
        reason = f"auto: not compiled, as {str(error).partition(chr(10))[0]}"
    else:
        return "compiled", "auto: the unit's own netlist, compiled"
    if config.rows * config.columns <= _VERILATOR_CELLS and find_simulator("verilator") is not None:
        return "verilator", reason
    if clocked:
        return "pysim", reason
    return "golden" if find_spec("numba") is None else "model", reason


def require(name: str) -> None:
    """Make sure, before any work, that an engine has what it needs.

    ``compiled`` may find its library in the cache, and looks for a compiler only if not.

    Raises
    ------
    SimulatorNotFoundError
        A simulator is missing.
    ModuleNotFoundError
        A package is missing.
    """
    from openmxu_sim.cosim.simulators import SIMULATORS, load_simulator

    if name in SIMULATORS:
        load_simulator(name)
    if name == "model" and find_spec("numba") is None:
        raise ModuleNotFoundError(f"the engine model needs numba: {install('model')}", name="numba")


def load_product(name: str) -> Callable[..., npt.NDArray[np.float32]]:
    """The product of the engine without a clock called ``name``, with the parameters of the golden one."""
    product: Callable[..., npt.NDArray[np.float32]] = import_module(
        {"golden": "openmxu_sim.golden", "model": "openmxu_sim.engines.model"}[name]
    ).matmul
    return product


def load(name: str) -> Engine:
    """The clocked engine called ``name``."""
    engine: Engine = import_module(f"openmxu_sim.engines.{name}").run
    return engine
