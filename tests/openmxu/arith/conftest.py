"""The gates that synthesis makes of components, held to expected words."""

from typing import Any

import numpy.typing as npt

from openmxu.area.target.gates import gates
from openmxu.spec.forms import AREA
from openmxu_evidence.verify.exhaustion import apart
from openmxu_sim.netlist.bitslice import Gates
from openmxu_sim.operands.reference import recode

from ...bits import same_bits


def on_gates(dut: Any, form: str = AREA) -> Gates:
    """The gates of a component, with a port for each number of a sum."""
    netlist, inputs = gates(dut, form=form), [name for name in dut.signature.members if name.startswith("i")]
    if hasattr(dut, "terms"):
        netlist, inputs = apart(netlist, dut.terms)
    return Gates(netlist, inputs, latency=dut.latency)


def check_gates(
    dut: Any, expected: npt.ArrayLike, *operands: npt.ArrayLike, form: str = AREA, fmt: str = "fp32", operand: str = ""
) -> None:
    """Compare what the gates of a component make of operands, which are recoded first if it takes recoded ones."""
    words, note = list(operands), f"{dut.module_name}, {form}"
    if getattr(dut, "recoded", False):
        words[:2] = map(recode, words, dut.formats)
        note += ", recoded"
    same_bits(on_gates(dut, form)(*words), expected, *operands, fmt=fmt, operand=operand, note=note)
