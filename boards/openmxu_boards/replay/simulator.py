"""From a circuit to a program with its pins."""

from collections.abc import Callable

from openmxu_boards.families import FAMILIES
from openmxu_boards.families.circuit import Circuit, CircuitError
from openmxu_boards.simulated.verilated import Program, VerilogError, compile_verilog


def cell_models() -> dict[str, str]:
    """The cells that circuits are made of, as texts in Verilog by the names of their files."""
    return {name: text for family in FAMILIES for name, text in family.models().items()}


def compile_circuit(
    circuit: Circuit, *, quick: bool = False, progress: Callable[[str], None] | None = None
) -> Program[Circuit]:
    """Compile a circuit, or fetch the program from the cache."""
    texts = cell_models() | {"top.v": circuit.to_verilog("top")}
    try:
        return Program(circuit, compile_verilog(texts, quick=quick, progress=progress))
    except VerilogError as error:
        raise CircuitError(str(error)) from None
