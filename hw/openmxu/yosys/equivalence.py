"""Equivalence over time: two copies of a netlist whose outputs never differ.

The copies start in the same state, whatever it is, and have the same inputs in each cycle. A register may differ while
its value has no meaning: a row's number, while its valid bit is low. Such a register has *guards*, pairs of a register
and a value: while a guard's register has its value in the first copy, the guarded one is equal in both. This invariant
is proven by induction over cycles: if it holds in one cycle, outputs are equal, and it holds in the next.

Simulation finds the guards that random states do not refute. SAT sweeping in ABC then proves the step.
"""

import operator
import random
from collections.abc import Callable, Mapping
from functools import partial
from graphlib import TopologicalSorter
from itertools import product

from openmxu import yosys
from openmxu.yosys.netlist import Bit, Cell, Netlist, read_netlist

Guard = tuple[Bit, bool]
"""A register and its value."""

GATES: Mapping[str, tuple[str, str, Callable[..., int]]] = {
    "$_NOT_": ("A", "0 1", operator.invert),
    "$_AND_": ("AB", "11 1", operator.and_),
    "$_OR_": ("AB", "1- 1\n-1 1", operator.or_),
    "$_XOR_": ("AB", "10 1\n01 1", operator.xor),
    "$_MUX_": ("ABS", "1-0 1\n-11 1", lambda a, b, s: a & ~s | b & s),
}
"""Inputs of each gate, its table as in BLIF, and the gate on patterns of bits."""

_REGISTER = "$_DFF_P_"

_PATTERNS = 4096
_QUIET = 4
"""Simulations in a row, of ``_PATTERNS`` random states each, that refute no more guards."""

_SWEEPING = f"""\
read_blif /job/design.il
simplemap
opt -full
abc -g AND -script +strash{";&get,-n;&fraig,-x,-C,100000;&put" * 2}
opt_clean -purge
write_json /job/result
"""


def is_equivalent(netlist: Netlist, switch: str) -> bool:
    """Whether a netlist is proven to behave alike with its input ``switch`` 0 and 1, in all cycles, from any state.

    Registers of one clock may differ as the module says. Cells that are neither gates nor registers must have equal
    inputs in both copies, so that their outputs are equal. States that are never reached count: a mutant that differs
    only in such a state is not proven.
    """
    pair = _Pair(netlist, switch)
    while pair.simulate():
        claims = [(register, guard) for register, guards in pair.guards.items() for guard in guards]
        proven = read_netlist(yosys.produce(_SWEEPING, pair.blif(claims)), "step").outputs
        if proven["different"] != ("0",):
            return False
        wrong = [claim for number, claim in enumerate(claims) if proven[f"claim{number}"] != ("0",)]
        if not wrong:
            return True
        for register, guard in wrong:
            pair.guards[register].remove(guard)
    return False


class _Pair:
    """The copies: each bit in ``left`` and in ``right``, the netlist with the switch 0 and 1."""

    def __init__(self, netlist: Netlist, switch: str) -> None:
        [self._switch] = netlist.inputs[switch]
        self._registers: dict[Bit, Bit] = {}  # the next value of each
        self._seen = [bit for bits in netlist.outputs.values() for bit in bits]
        self._given = [bit for name, bits in netlist.inputs.items() if name != switch for bit in bits]
        gates: dict[Bit, Cell] = {}
        clocks = set[Bit]()
        for cell in netlist.cells:
            if cell.type in GATES:
                gates[cell.connections["Y"][0]] = cell
            elif cell.type == _REGISTER:
                self._registers[cell.connections["Q"][0]] = cell.connections["D"][0]
                clocks |= {*cell.connections["C"]}
            else:
                for port, bits in cell.connections.items():
                    (self._seen if port in cell.inputs else self._given).extend(bits)
        self._seen += clocks
        self._may_differ = len(clocks) == 1
        sources = {
            output: [cell.connections[port][0] for port in GATES[cell.type][0]] for output, cell in gates.items()
        }
        self._gates = [
            (gates[output].type, sources[output], output)
            for output in TopologicalSorter(sources).static_order()
            if output in gates
        ]
        self._random = random.Random(0)
        self._candidates = [*product(self._registers, (False, True))]
        self.guards: dict[Bit, set[Guard]] = {}

    def simulate(self) -> bool:
        """Find guards that no random state refutes, for all registers that may differ; ``False`` if outputs differ."""
        quiet = 0
        while quiet < _QUIET:
            left, right = self._patterns()
            if any(left[bit] != right[bit] for bit in self._seen):
                return False
            quiet += 1
            for register, after in self._registers.items():
                apart = left[after] ^ right[after]
                if apart and not self._may_differ:
                    return False
                known = self.guards.get(register, self._candidates if apart else ())
                kept = {
                    (guard, value) for guard, value in known if not apart & _when(left[self._registers[guard]], value)
                }
                if apart and (register not in self.guards or len(kept) < len(known)):
                    self.guards[register] = kept
                    quiet = 0
        return True

    def _patterns(self) -> tuple[dict[Bit, int], dict[Bit, int]]:
        """Values of all bits in both copies, in random states that satisfy the guards."""
        draw = partial(self._random.getrandbits, _PATTERNS)
        values = {bit: draw() for bit in [*self._given, *self._registers]}
        for guards in self.guards.values():
            rare = draw() & draw()  # states in which none of many guards is active
            values |= {guard: values[guard] & ~rare if value else values[guard] | rare for guard, value in guards}
        left: dict[Bit, int] = {"0": 0, "x": 0, "1": -1} | values | {self._switch: 0}
        right = left | {self._switch: -1}
        for register, guards in self.guards.items():
            free = draw()
            for guard, value in guards:
                free &= ~_when(values[guard], value)
            right[register] = values[register] ^ free
        for bits in (left, right):
            for kind, sources, output in self._gates:
                bits[output] = GATES[kind][2](*[bits[source] for source in sources])
        return left, right

    def blif(self, claims: list[tuple[Bit, Guard]]) -> str:
        """BLIF of a step from any state that satisfies the guards: ``different`` is high where outputs or registers
        without guards differ; for each claim, a bit is high where it is wrong.
        """
        lines = [_table("zero"), _table("one", "1")]
        if spaced := [output for _, _, output in self._gates if len(str(output).split()) != 1]:
            raise ValueError(f"bits must have names without spaces, not {spaced[0]!r}")
        shared = {bit: f"i{bit}" for bit in [*self._given, *self._registers]}
        left = shared | {"0": "zero", "x": "zero", "1": "one"} | {self._switch: "zero"}
        right = left | {self._switch: "one"} | {register: f"m{register}" for register in self.guards}
        for register, guards in self.guards.items():
            free = f"free{register}"  # an input: whether they differ, if no guard is active
            for number, (guard, value) in enumerate(guards):
                lines.append(_table(f"free{register}_{number}", f"1{not value:d} 1", free, shared[guard]))
                free = f"free{register}_{number}"
            lines.append(_table(f"m{register}", "10 1\n01 1", shared[register], free))
        for bits, copy in ((left, "l"), (right, "r")):
            for kind, sources, output in self._gates:
                bits[output] = f"{copy}{output}"
                lines.append(_table(bits[output], GATES[kind][1], *(bits[source] for source in sources)))
        after = [bit for register, bit in self._registers.items() if register not in self.guards]
        apart = [f"d{number}" for number, _ in enumerate([*self._seen, *after])]
        for name, bit in zip(apart, [*self._seen, *after], strict=True):
            lines.append(_table(name, "10 1\n01 1", left[bit], right[bit]))
        for number in range(len(apart) - 1):  # a tree: ABC follows a chain by recursion
            apart.append(f"any{number}")
            lines.append(_table(apart[-1], "1- 1\n-1 1", *apart[2 * number : 2 * number + 2]))
        lines.append(_table("different", "1 1", apart[-1]))
        for number, (register, (guard, value)) in enumerate(claims):
            held, when = self._registers[register], self._registers[guard]
            lines.append(_table(f"claim{number}", f"10{value:d} 1\n01{value:d} 1", left[held], right[held], left[when]))
        inputs = " ".join([*shared.values(), *(f"free{register}" for register in self.guards)])
        outputs = " ".join(["different", *(f"claim{number}" for number, _ in enumerate(claims))])
        return "\n".join([".model step", f".inputs {inputs}", f".outputs {outputs}", *lines, ".end", ""])


def _table(output: str, rows: str = "", *inputs: str) -> str:
    """A function in BLIF."""
    return f".names {' '.join([*inputs, output])}\n{rows}".rstrip()


def _when(pattern: int, value: bool) -> int:
    return pattern if value else ~pattern
