"""Gate netlists as functions on bit slices, in C for sweeps, else in Python: many operands pass the gates at a time."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from openmxu.yosys.netlist import Bit, Netlist
from openmxu_sim.operands.aliases import Words

LANES, BLOCK = 512, 8192
"""Operands that pass the gates at a time in C, and in :class:`Gates`."""

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
    body = "\n".join(
        f"  {'' if '[' in target else 'const word '}{target} = {expression};"
        for target, expression in _assignments(netlist, inputs)
    )
    return (
        f"enum {{ REGISTERS = {sum(cell.type == '$_DFF_P_' for cell in netlist.cells)} }};\n"
        "static void gates(const word *restrict i, word *restrict o, word *restrict state) {\n"
        f"  const word zero = everywhere(0), one = ~zero;\n  (void)zero, (void)one, (void)state;\n{body}\n}}\n"
    )


def _assignments(netlist: Netlist, inputs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield targets and expressions, as C and Python read them alike."""
    if sorted(set(netlist.inputs) - set(_CLOCKING)) != sorted(inputs) or len(netlist.outputs) != 1:
        raise ValueError(
            f"netlist must have the inputs {', '.join(inputs)} and one output, not "
            f"{', '.join([*netlist.inputs, *netlist.outputs])}"
        )
    [output] = netlist.outputs.values()
    registers = [cell for cell in netlist.cells if cell.type == "$_DFF_P_"]
    names: dict[Bit, str] = {"0": "zero", "1": "one", "x": "zero"}
    names |= {bit: f"i[{n}]" for n, bit in enumerate(bit for port in inputs for bit in netlist.inputs[port])}
    for index, cell in enumerate(registers):
        names[cell.connections["Q"][0]] = f"q{index}"
        yield f"q{index}", f"state[{index}]"
    yield from _expressions(netlist, names, [*output, *(cell.connections["D"][0] for cell in registers)])
    yield from ((f"o[{n}]", names[output[n]] if n < len(output) else "zero") for n in range(32))
    for index, cell in enumerate(registers):
        yield f"state[{index}]", names[cell.connections["D"][0]]


def _expressions(netlist: Netlist, names: dict[Bit, str], wanted: Sequence[Bit]) -> Iterator[tuple[str, str]]:
    """Yield what computes the ``wanted`` bits, each after its operands; ``names`` gets the names of bits."""
    drivers = {cell.connections["Y"][0]: cell for cell in netlist.cells if cell.type != "$_DFF_P_"}
    for cell in drivers.values():
        if cell.type not in _EXPRESSIONS:
            raise ValueError(f"netlist must consist of {', '.join(_EXPRESSIONS)} and $_DFF_P_, not of {cell.type}")
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
            yield names[bit], expression
        elif bit in underway:
            raise ValueError(f"netlist must be free of loops, not run in one through {cell.name}")
        underway.add(bit)
        stack += missing


class Gates:
    """A netlist of one output as a function of arrays."""

    def __init__(self, netlist: Netlist, inputs: Sequence[str], latency: int = 0) -> None:
        self._widths = [len(netlist.inputs[name]) for name in inputs]
        self._cells = len(netlist.cells)
        self._latency = latency
        text, names = "\n ".join(map(" = ".join, _assignments(netlist, inputs))), dict[str, Any]()
        exec(f"def gates(i, o, state, zero, one):\n {text}", names)
        self._gates = names["gates"]

    def __call__(self, *operands: npt.ArrayLike) -> Words:
        """Return the output for operands, arrays of the same length or scalars that hold for all."""
        arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(operand, dtype=np.uint32)) for operand in operands))
        count = len(arrays[0])
        # Blocks of zeros follow the last operands until their results come out.
        blocks = -(-count // BLOCK) + self._latency
        padded = np.zeros((len(arrays), blocks * BLOCK), dtype="<u4")
        padded[:, :count] = arrays
        results = np.empty((blocks, BLOCK), dtype=np.uint32)
        zero = np.zeros(BLOCK // 8, dtype=np.uint8)
        state, o = [zero] * self._cells, [zero] * 32
        for result, block in zip(results, padded.reshape(len(arrays), blocks, BLOCK).swapaxes(0, 1), strict=True):
            i = [wire for port, width in zip(block, self._widths, strict=True) for wire in _transposed(port, 4)[:width]]
            self._gates(i, o, state, zero, ~zero)
            result[:] = _transposed(np.concatenate(o), BLOCK // 8).view("<u4")[:, 0]
        return results[self._latency :].ravel()[:count]


def _transposed(rows: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """Transpose the matrix of bits whose rows have ``size`` bytes."""
    bits = np.unpackbits(rows.view(np.uint8).reshape(-1, size), axis=1, bitorder="little").T
    return np.packbits(np.ascontiguousarray(bits), axis=1, bitorder="little")
