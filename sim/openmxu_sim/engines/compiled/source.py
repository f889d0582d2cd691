"""C text for a unit: its parts' netlists as functions, and what wires them."""

from collections.abc import Callable
from typing import Any

from openmxu.accumulator import AccumulatorColumn, Emission
from openmxu.admission import Admission
from openmxu.array import processing_element
from openmxu.config import MxuConfig
from openmxu.edge import Edge
from openmxu.status import Status
from openmxu.verilog import to_rtlil
from openmxu_sim.engines.protocol import Counters
from openmxu_sim.netlist.circuit import Circuit
from openmxu_sim.netlist.code import Code
from openmxu_sim.netlist.native import resource

__all__ = ["constants", "netlists", "parts", "unit_source"]

_PARTS: dict[str, Callable[[MxuConfig], Any]] = {
    "admission": Admission,
    # Lanes of an edge are taken together: each is an edge of one lane.
    "edge": lambda config: Edge(config, 1),
    "emission": Emission,
    "pe": processing_element,
    "column": AccumulatorColumn,
    "status": Status,
}

_COPIES = 4
"""Vectors of processing elements that are computed side by side: one alone waits for itself most of the time."""


def parts(config: MxuConfig) -> list[str]:
    """Names of what a unit is made of."""
    return [name for name in _PARTS if name != "status" or config.status]


def netlists(config: MxuConfig) -> dict[str, str]:
    """The RTLIL of a unit's parts, each once, in a module called as the part."""
    return {name: to_rtlil(_PARTS[name](config), name=name) for name in parts(config)}


def constants(config: MxuConfig) -> dict[str, int]:
    """The numbers that ``unit.c`` knows a unit by; its wiring is checked for the same ones.

    ``SKEW_BASE`` are the cycles from the activation edge to row 0, ``ROW_STEP`` those that each further row is behind,
    ``CONTROL_DELAY`` those from admission to the accumulator bank.
    """
    return {
        "ROWS": config.rows,
        "COLUMNS": config.columns,
        "ROW_STEP": config.row_step,
        "SKEW_BASE": 1,
        "CONTROL_DELAY": 1 + config.array_latency,
        "SOURCE_WIDTH": config.source.width,
        "OPERAND_WIDTH": config.operand.width,
    }


def unit_source(config: MxuConfig, rtlil: dict[str, str]) -> str:
    """The C text of a unit.

    Parameters
    ----------
    config
        The unit.
    rtlil
        From :func:`netlists`.

    Raises
    ------
    openmxu_sim.netlist.rtlil.NetlistError
        A netlist holds what cannot be compiled.
    """
    circuits = {name: Circuit(text, name) for name, text in rtlil.items()}
    text = [resource("openmxu_sim.engines.compiled", "vectors.c")]
    code = Code(circuits["edge"], "edge", lanes=True)
    code.function("look", ["o_words"])
    code.function("step", [], clock=True)
    text.append(code.text())
    if config.splitter:
        text.append("#define SPLITTER")
    for part in ("admission", "emission", *(["status"] if config.status else [])):
        code = Code(circuits[part], part, lanes=False)
        if part == "status":
            text.append("#define STATUS")
            code.function("look", list(circuits[part].outputs))
        code.function("step", list(circuits[part].outputs), inputs=circuits[part].inputs, clock=True)
        text.append(code.text())
    code = Code(circuits["column"], "column_marks", lanes=True, only=["o_control"])
    code.function("look", ["o_control"])
    code.function("step", [], clock=True)
    text.append(code.text())
    for part in ("pe", "column"):
        code = Code(circuits[part], part, lanes=True)
        code.function("look", list(circuits[part].outputs))
        code.function("step", [], clock=True)
        if part == "pe":
            code.function("steps", [], clock=True, copies=_COPIES)
        text.append(code.text())
        if part == "pe":
            text.append(f'const char unit_registers[] = "{_registers(circuits[part], code)}";')
    numbers = {"COPIES": _COPIES, "COUNTERS": len(Counters._fields), **constants(config)}
    text.append("enum {\n" + "".join(f"  {name} = {value},\n" for name, value in numbers.items()) + "};")
    text.append(resource("openmxu_sim.engines.compiled", "unit.c"))
    return "\n".join(text)


def _registers(circuit: Circuit, code: Code) -> str:
    """Names and widths of a circuit's registers; those that are outputs are called like these."""
    names = {name: name for name in code.fields}
    for output, bits in circuit.outputs.items():
        node = circuit.word(bits)
        if node.op == "register":
            names[node.name] = output
    return " ".join(f"{names[name]}:{width}" for name, (_, width) in code.fields.items())
