"""Several ways to run a unit, with the same bits from each.

=============  ==========================================================================================
``golden``     The definition, in numpy. No clock: cycles come from the formula.
``model``      The same sums in the same order as vector code. Needs a C compiler. No clock either.
``pysim``      The RTL in Amaranth's own simulator. Needs nothing; for small arrays and waveforms.
``verilator``  The RTL as Verilog, compiled by Verilator and driven by cocotb. Needs a C++ compiler.
``icarus``     The RTL as Verilog in Icarus Verilog, driven by cocotb. Needs ``iverilog``.
``compiled``   The RTL's netlist as vector code: full size, cycle by cycle, in seconds. Needs a C compiler.
``board``      An FPGA on a serial port that runs one of our bitstreams; another package connects it.
=============  ==========================================================================================
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import numpy.typing as npt

from openmxu.spec.config import MxuConfig
from openmxu_sim.engines.protocol import Device, Engine

__all__ = ["BOARD", "CLOCKED", "ENGINES", "choose", "connect", "load", "load_product", "quickest_product", "require"]

ENGINES = ("golden", "model", "pysim", "icarus", "verilator", "compiled")
"""Names of all engines of this package."""

BOARD = "board"
"""Name of the engine that is no simulation: a unit on an FPGA."""

CLOCKED = ("pysim", "icarus", "verilator", "compiled")
"""Names of the engines that run the hardware clock by clock."""

_VERILATOR_CELLS = 64
"""Most processing elements for which Verilator compiles the unit fast enough to be waited for."""


def choose(config: MxuConfig, *, clocked: bool = False) -> tuple[str, str]:
    """Return the engine that ``auto`` means for a unit, and the reason.

    ``compiled``, if its library is cached or can be built. Otherwise ``verilator``, if the unit is small and Verilator
    is installed. Otherwise ``pysim`` if a clock is needed, else the engine of :func:`quickest_product`.

    Parameters
    ----------
    config
        The unit.
    clocked
        Whether a clock is needed, for stalls or waveforms.
    """
    from openmxu.runtime.native import CompilationError, CompilerNotFoundError
    from openmxu_sim.cosim.simulators import find_simulator
    from openmxu_sim.engines.compiled.model import load_model
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
    return quickest_product(), reason


def quickest_product() -> str:
    """Return the faster engine without a clock: ``model`` if its library is cached or can be built, else ``golden``."""
    from openmxu.runtime.native import CompilationError, CompilerNotFoundError
    from openmxu_sim.engines.model.kernel import load_kernel

    try:
        load_kernel()
    except (CompilerNotFoundError, CompilationError, OSError):
        return "golden"
    return "model"


def require(name: str) -> None:
    """Check, before any work, that an engine has what it needs.

    ``model`` looks for a compiler only if its library is not in the cache; ``compiled`` is not checked before it runs.

    Raises
    ------
    SimulatorNotFoundError
        A simulator is missing.
    ModuleNotFoundError
        A package is missing.
    openmxu.runtime.native.CompilerNotFoundError, openmxu.runtime.native.CompilationError
        There is no C compiler, or it failed.
    """
    from openmxu_sim.cosim.simulators import SIMULATORS, load_simulator
    from openmxu_sim.engines.model.kernel import load_kernel

    if name in SIMULATORS:
        load_simulator(name)
    if name == "model":
        load_kernel()


def load_product(name: str) -> Callable[..., npt.NDArray[Any]]:
    """Return the product of the engine without a clock called ``name``, with the parameters of the golden one."""
    product: Callable[..., npt.NDArray[Any]] = import_module(
        {"golden": "openmxu_sim.golden", "model": "openmxu_sim.engines.model"}[name]
    ).matmul
    return product


def load(name: str) -> Engine:
    """Return the clocked engine called ``name``."""
    from openmxu_sim.cosim.simulators import SIMULATORS

    if name in SIMULATORS:
        return partial(import_module("openmxu_sim.engines.cosimulation").run, name)
    engine: Engine = import_module(f"openmxu_sim.engines.{name}").run
    return engine


def connect(port: str) -> Device:
    """Connect to the unit on a port by the first function that a package registers in the group ``openmxu.devices``.

    Raises
    ------
    OSError, RuntimeError, ValueError
        No package connects boards, or there is no board.
    """
    entry = next(iter(entry_points(group="openmxu.devices", name=BOARD)), None)
    if entry is None:
        raise OSError(f"engine {BOARD!r} needs a package that connects boards, and none is installed")
    device: Device = entry.load()(port)
    return device
