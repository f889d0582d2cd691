"""Gate netlists as C functions on bit slices: 512 operands pass the gates at a time."""

import ctypes
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from openmxu.yosys.netlist import Bit, Cell, Netlist
from openmxu_sim.netlist.native import compile_c, resource
from openmxu_sim.operands.aliases import Words

LANES = 512
"""Operands that pass the gates at a time."""

_CLOCKING = ("clk", "rst")
_EXPRESSIONS = {
    "$_NOT_": "~{A}",
    "$_AND_": "{A} & {B}",
    "$_OR_": "{A} | {B}",
    "$_XOR_": "{A} ^ {B}",
    "$_MUX_": "({S} & {B}) | (~{S} & {A})",
}


def bit_slices(netlist: Netlist, inputs: Sequence[str]) -> str:
    """Return C text of ``void gates(const word *i, word *o, word *state)``, the netlist in one cycle."""
    if sorted(set(netlist.inputs) - set(_CLOCKING)) != sorted(inputs) or len(netlist.outputs) != 1:
        raise ValueError(
            f"netlist must have the inputs {', '.join(inputs)} and one output, not "
            f"{', '.join([*netlist.inputs, *netlist.outputs])}"
        )
    [output] = netlist.outputs.values()
    registers = [cell for cell in netlist.cells if cell.type == "$_DFF_P_"]
    lines: list[str] = []
    names: dict[Bit, str] = {"0": "zero", "1": "one", "x": "zero"}
    for index, bit in enumerate(bit for port in inputs for bit in netlist.inputs[port]):
        names[bit] = f"i[{index}]"
    for index, cell in enumerate(registers):
        names[cell.connections["Q"][0]] = f"q{index}"
        lines.append(f"const word q{index} = state[{index}];")
    lines += _expressions(netlist, names, [*output, *(cell.connections["D"][0] for cell in registers)])
    lines += [f"o[{index}] = {names[bit]};" for index, bit in enumerate(output)]
    lines += [f"o[{index}] = zero;" for index in range(len(output), 32)]
    lines += [f"state[{index}] = {names[cell.connections['D'][0]]};" for index, cell in enumerate(registers)]
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f"enum {{ REGISTERS = {len(registers)} }};\n"
        "static void gates(const word *restrict i, word *restrict o, word *restrict state) {\n"
        f"  const word zero = everywhere(0), one = ~zero;\n  (void)zero, (void)one, (void)state;\n{body}\n}}\n"
    )


def _expressions(netlist: Netlist, names: dict[Bit, str], wanted: Sequence[Bit]) -> list[str]:
    """Return lines that compute the ``wanted`` bits, each after its operands; ``names`` gets the names of bits."""
    drivers: dict[Bit, Cell] = {}
    for cell in netlist.cells:
        if cell.type == "$_DFF_P_":
            continue
        if cell.type not in _EXPRESSIONS:
            raise ValueError(f"netlist must consist of {', '.join(_EXPRESSIONS)} and $_DFF_P_, not of {cell.type}")
        drivers[cell.connections["Y"][0]] = cell
    lines: list[str] = []
    underway: set[Bit] = set()
    stack = list(wanted)
    while stack:
        bit = stack[-1]
        if bit in names:
            stack.pop()
            continue
        cell = drivers[bit]
        operands = {port: bits[0] for port, bits in cell.connections.items() if port != "Y"}
        missing = [operand for operand in operands.values() if operand not in names]
        if not missing:
            expression = _EXPRESSIONS[cell.type].format(**{port: names[bit] for port, bit in operands.items()})
            names[bit] = f"n{bit}"
            lines.append(f"const word n{bit} = {expression};")
        elif bit in underway:
            raise ValueError(f"netlist must be free of loops, not run in one through {cell.name}")
        underway.add(bit)
        stack += missing
    return lines


class Gates:
    """A netlist of one output as machine code."""

    def __init__(self, netlist: Netlist, inputs: Sequence[str], latency: int = 0) -> None:
        self._widths = [len(netlist.inputs[name]) for name in inputs]
        self._latency = latency
        widths = ", ".join(map(str, self._widths))
        source = [
            resource("openmxu_sim.netlist", "lanes.c"),
            bit_slices(netlist, inputs),
            f"static const int widths[] = {{ {widths} }};",
            resource("openmxu_sim.netlist", "evaluate.c"),
        ]
        self._evaluate = compile_c("\n".join(source)).evaluate
        self._evaluate.restype = None

    def __call__(self, *operands: npt.ArrayLike) -> Words:
        """Return the output for operands, arrays of the same length or scalars that hold for all."""
        arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(operand, dtype=np.uint32)) for operand in operands))
        count = len(arrays[0])
        blocks = -(-count // LANES)
        # Blocks of zeros follow the last operands until their results come out.
        padded = np.zeros((len(arrays), (blocks + self._latency) * LANES), dtype=np.uint32)
        padded[:, :count] = arrays
        results = np.empty(blocks * LANES, dtype=np.uint32)
        self._evaluate(
            padded.ctypes.data_as(ctypes.c_void_p),
            results.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(blocks),
            ctypes.c_size_t(self._latency),
        )
        return results[:count]
