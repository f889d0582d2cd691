"""C text of an accelerator whose processing elements and accumulator columns are vector code.

All else is the netlist of the whole accelerator: what goes between it and the parts is found by the names of their
ports, and nothing of it is written by hand but that elements stand in rows and columns, each beside the next.
"""

import re
from collections.abc import Mapping

from openmxu.export.verilog import to_rtlil
from openmxu.runtime import native
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.unit.accumulator import AccumulatorColumn
from openmxu.unit.array import SystolicArray, processing_element
from openmxu_sim.netlist.body import LIMB
from openmxu_sim.netlist.circuit import Circuit
from openmxu_sim.netlist.code import lanes_code

PARTS = (SystolicArray, AccumulatorColumn)
"""Components that the netlist of the accelerator leaves out."""


def parts_text(config: AcceleratorConfig, whole: Circuit) -> str:
    """Return the C text of the parts that ``whole``, the accelerator, leaves out, and of what goes between them."""
    [array] = re.findall(r"^(\w+)_i_activations$", "\n".join(whole.outputs), re.MULTILINE)
    bank = array.replace("array", "bank_column")
    element = Circuit(to_rtlil(processing_element(config.unit), name="pe"), "pe", resets=True)
    column = Circuit(to_rtlil(AccumulatorColumn(config.unit, biased=True), name="column"), "column", resets=True)
    text = [lanes_code(circuit, name).text() for name, circuit in (("pe", element), ("column", column))]
    numbers = {"SIZE": config.size, "TERMS": config.unit.terms, "WIDTH": config.unit.word_width}
    text += [f"enum {{ {', '.join(f'{name} = {value}' for name, value in numbers.items())} }};"]
    text += [f"#define ARRAY(port) {array}_##port", "struct parts;"]
    between = _columns_text(config, column, bank)
    body = native.resource("openmxu_sim.accelerator.rtl", "vector_parts.c")
    head, mark, tail = body.partition("static void parts_begin")
    return "\n".join([*text, head, between, mark + tail])


def _columns_text(config: AcceleratorConfig, column: Circuit, bank: str) -> str:
    """Return functions that copy what the columns give, and what they take, lane by lane."""
    outputs = {name: len(bits) for name, bits in column.outputs.items()}
    shows = ["  for (int j = 0; j < COLUMN_BLOCKS; j++) column_look((struct column_state *)&p->bank[j], 0, &shown[j]);"]
    takes = []
    for index in range(config.size):
        at, lane = f"[{index} / LANES]", f"[{index} % LANES]"
        shows += [f"  in->{bank}_{index}_{port}[0] = shown{at}.{port}[0]{lane};" for port in _narrow(outputs)]
        takes += [
            f"  p->bank_in{at}.{port}[0]{lane} = out->{bank}_{index}_{port}[0];"
            for port in _narrow(column.inputs)
            if port != "rst"
        ]
    return "\n".join(
        [
            "static void columns_show(const struct parts *p, struct accelerator_in *in) {",
            "  struct column_out shown[COLUMN_BLOCKS];",
            *shows,
            "}",
            "static void columns_take(struct parts *p, const struct accelerator_out *out) {",
            *takes,
            "}",
        ]
    )


def _narrow(ports: Mapping[str, int]) -> list[str]:
    assert max(ports.values()) <= LIMB, ports
    return list(ports)
