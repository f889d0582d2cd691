"""C text for a unit: its parts' netlists as functions, and the code that wires them."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from openmxu.export.verilog import to_rtlil
from openmxu.runtime.native import resource
from openmxu.spec.config import MxuConfig
from openmxu.unit.accumulator import AccumulatorColumn, Emission
from openmxu.unit.admission import Admission
from openmxu.unit.array import processing_element
from openmxu.unit.edge import Edge
from openmxu.unit.status import Status
from openmxu_sim.engines.protocol import Counters
from openmxu_sim.netlist.circuit import Circuit
from openmxu_sim.netlist.code import Code, lanes_code

_PARTS: dict[str, Callable[[MxuConfig], Any]] = {
    "admission": Admission,
    # Lanes of an edge are taken together: each is an edge of one lane.
    "edge": lambda config: Edge(config, 1),
    "weight_edge": lambda config: Edge(config, 1, weights=True),
    "emission": Emission,
    "pe": processing_element,
    "column": AccumulatorColumn,
    "status": Status,
}

CONTROL = ("admission", "emission", "status")
"""Control parts, of which there is one each; ``status`` only where the unit has it."""

_COPIES = 4
"""Vectors of processing elements computed side by side: a single one mostly waits for its own results."""


def parts(config: MxuConfig) -> list[str]:
    """Return the names of a unit's parts; weights have an edge of their own if their format is another one."""
    absent = {"status": not config.status, "weight_edge": config.weight is None}
    return [name for name in _PARTS if not absent.get(name)]


def netlists(config: MxuConfig, wanted: Collection[str] = ()) -> dict[str, str]:
    """Return the RTLIL of a unit's parts, all or the wanted ones, each once, in a module called as the part."""
    return {name: to_rtlil(_PARTS[name](config), name=name) for name in wanted or parts(config)}


def constants(config: MxuConfig) -> dict[str, int]:
    """Return the constants that ``unit.c`` has of a unit; its wiring is checked for the same ones.

    ``SKEW_BASE``: cycles from the activation edge to row 0; ``TERMS``: rows that a processing
    element stands for; ``ROW_STEP``: cycles by which each further row of elements is behind;
    ``CONTROL_DELAY``: cycles from admission to the accumulator bank.
    """
    return {
        "ROWS": config.rows,
        "COLUMNS": config.columns,
        "TERMS": config.terms,
        "ROW_STEP": config.row_step,
        "SKEW_BASE": 1,
        "CONTROL_DELAY": 1 + config.array_latency,
        "SOURCE_WIDTH": config.source.width,
        "OPERAND_WIDTH": config.word_width,
    }


def unit_source(config: MxuConfig, rtlil: dict[str, str]) -> str:
    """Return the C text of a unit."""
    circuits = {name: Circuit(text, name) for name, text in rtlil.items()}
    text = [resource("openmxu_sim.engines.compiled", "vectors.c"), *flags(config)]
    text += [control_text(circuits[part], part) for part in CONTROL if part in circuits]
    text.append(data_text(circuits))
    numbers = shared_constants() | constants(config)
    text += [enumeration(numbers), resource("openmxu_sim.engines.compiled", "unit.c")]
    return "\n".join(text)


def shared_constants(copies: int = _COPIES) -> dict[str, int]:
    """Return the constants that are the same for all units; ``copies``: vectors of elements side by side."""
    return {"COPIES": copies, "COUNTERS": len(Counters._fields)}


def flags(config: MxuConfig) -> list[str]:
    """Return the ``#define`` lines that tell ``unit.c`` what a unit has."""
    has = {"SPLITTER": config.splitter, "STATUS": config.status, "TWO_FORMATS": config.weight is not None}
    return [f"#define {name}" for name, there in has.items() if there]


def enumeration(numbers: Mapping[str, int]) -> str:
    """Return constants as an enumeration in C."""
    return "enum {\n" + "".join(f"  {name} = {value},\n" for name, value in numbers.items()) + "};"


def control_text(circuit: Circuit, part: str, name: str = "") -> str:
    """Return functions and register names of a part among :data:`CONTROL`; ``name``: its name in C, if another."""
    code = Code(circuit, name or part, lanes=False)
    if part == "status":
        code.function("look", list(circuit.outputs))
    code.function("step", list(circuit.outputs), inputs=circuit.inputs, clock=True)
    return f"{code.text()}\n{_names(circuit, code, name or part)}"


def data_text(circuits: Mapping[str, Circuit], copies: int = _COPIES) -> str:
    """Return the functions of the parts that hold data: edge, processing element, accumulator column and its marks."""
    text = [lanes_code(circuits[edge], edge, ["o_words"]) for edge in ("edge", "weight_edge") if edge in circuits]
    text.append(lanes_code(circuits["column"], "column_marks", ["o_control"], only=["o_control"]))
    pe = lanes_code(circuits["pe"], "pe")
    pe.function("steps", [], clock=True, copies=copies)
    columns = lanes_code(circuits["column"], "column")
    return "\n".join([*(code.text() for code in text), pe.text(), _names(circuits["pe"], pe, "unit"), columns.text()])


def _names(circuit: Circuit, code: Code, name: str) -> str:
    """Return names and widths of a part's registers as C text; a register that is an output has the output's name."""
    names = {name: name for name in code.fields}
    for output, bits in circuit.outputs.items():
        node = circuit.word(bits)
        if node.op == "register":
            names[node.name] = output
    registers = " ".join(f"{names[field]}:{width}" for field, (_, width) in code.fields.items())
    return f'const char {name}_registers[] = "{registers}";'
