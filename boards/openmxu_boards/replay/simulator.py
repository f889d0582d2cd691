"""From a circuit to a program with its pins."""

import importlib.resources
from collections.abc import Callable

from openmxu_boards.replay.circuit import Circuit, CircuitError
from openmxu_boards.simulated.verilated import Program, VerilogError, compile_verilog


def cell_models() -> dict[str, str]:
    """The cells that circuits are made of, as texts in Verilog by the names of their files."""
    cells = importlib.resources.files(__package__).joinpath("cells")
    return {name: cells.joinpath(name).read_text() for name in ("ice40.v", "ecp5.v", "gowin.v", "gatemate.v")}


def compile_circuit(
    circuit: Circuit, *, quick: bool = False, progress: Callable[[str], None] | None = None
) -> Program[Circuit]:
    """Compile a circuit, or fetch the program from the cache."""
    texts = cell_models() | {"top.v": circuit.to_verilog("top")}
    try:
        return Program(circuit, compile_verilog(texts, quick=quick, progress=progress))
    except VerilogError as error:
        raise CircuitError(str(error)) from None
