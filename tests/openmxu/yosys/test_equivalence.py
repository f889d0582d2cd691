"""Two copies that do the same for ever: proven where they do, and never where they do not."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from operator import and_, or_, xor
from random import Random

import pytest
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu import yosys
from openmxu.export.verilog import to_rtlil
from openmxu.yosys.equivalence import is_equivalent
from openmxu.yosys.netlist import Bit, Cell, Netlist, read_netlist

from ...conftest import thorough

_WIDTH = 32
_RARE = 0x1234_5678


class _Pipeline(wiring.Component):
    """A word, its valid bit: with ``switch`` a bit of the word is inverted where none is valid; mistakes are seen."""

    def __init__(self, mistake: str = "") -> None:
        self._mistake = mistake
        super().__init__({"switch": In(1), "i": In(_WIDTH), "valid": In(1), "o": Out(_WIDTH), "o_valid": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        word, valid = self.i, self.valid
        for stage in range(3):
            if stage == 1:
                wrong = {"word": valid, "rare": ~valid | (word == _RARE)}.get(self._mistake, ~valid)
                word, valid = word ^ (self.switch & wrong), valid ^ (self.switch & (self._mistake == "valid bit"))
            later, is_valid = Signal(_WIDTH, name=f"word_{stage}", reset_less=True), Signal(name=f"valid_{stage}")
            m.d.sync += [later.eq(word), is_valid.eq(valid)]
            word, valid = later, is_valid
        wrong = self.switch & (self._mistake == "output") & (word == _RARE)
        m.d.comb += [self.o.eq(Mux(valid | (self._mistake == "any time"), word, 0) ^ wrong), self.o_valid.eq(valid)]
        return m


def _netlist(mistake: str = "") -> Netlist:
    script = (
        "read_rtlil /job/design.il\nsynth -flatten -noabc -top top\n"
        "dfflegalize -cell $_DFF_P_ 01\nabc -g AND,OR,XOR\nwrite_json /job/result\n"
    )
    return read_netlist(yosys.produce(script, to_rtlil(_Pipeline(mistake), name="top")), "top")


@pytest.mark.parametrize("mistake", ["", "any time", "word", "valid bit", "rare", "output"])
def test_what_is_read_must_not_differ(mistake: str) -> None:
    """What is never read may: the place of a row that is not valid. The last two no simulation sees."""
    assert is_equivalent(_netlist(mistake), "switch") == (not mistake)


def test_registers_of_two_clocks_must_not_differ() -> None:
    """A guard may be loaded in other cycles than what it guards."""
    netlist = _netlist()
    first = next(cell for cell in netlist.cells if cell.type == "$_DFF_P_")
    other = replace(first, connections={**first.connections, "C": netlist.inputs["rst"]})
    cells = tuple(other if cell is first else cell for cell in netlist.cells)
    assert not is_equivalent(replace(netlist, cells=cells), "switch")


_KINDS: dict[str, Callable[..., int]] = {"$_NOT_": lambda a: 1 - a, "$_AND_": and_, "$_OR_": or_, "$_XOR_": xor}
_PORTS = {"$_NOT_": "A", "$_AND_": "AB", "$_OR_": "AB", "$_XOR_": "AB"}


def _random(generator: Random) -> Netlist:
    """Four registers, two inputs and the switch, ten gates, an output."""
    known: list[Bit] = [4, 5, *range(20, 24), 3]  # inputs, registers, switch; the clock is 2
    cells = []
    for output in range(30, 40):
        kind = generator.choice([*_KINDS])
        ports = {port: (generator.choice(known),) for port in _PORTS[kind]}
        cells.append(Cell(f"g{output}", kind, {}, {**ports, "Y": (output,)}, frozenset(_PORTS[kind])))
        known.append(output)
    for register in range(20, 24):
        connections: dict[str, tuple[Bit, ...]] = {"C": (2,), "D": (generator.choice(known[7:]),), "Q": (register,)}
        cells.append(Cell(f"r{register}", "$_DFF_P_", {}, connections, frozenset("CD")))
    return Netlist("top", {"clk": (2,), "switch": (3,), "i": (4, 5)}, {"o": (known[-1],)}, tuple(cells), {}, {})


def _step(netlist: Netlist, state: tuple[int, ...], inputs: tuple[int, ...], switch: int) -> list[int]:
    registers = [cell.connections for cell in netlist.cells if cell.type == "$_DFF_P_"]
    bits: dict[Bit, int] = {3: switch, **dict(zip(netlist.inputs["i"], inputs, strict=True))}
    bits |= {each["Q"][0]: level for each, level in zip(registers, state, strict=True)}
    for cell in netlist.cells:
        if cell.type in _KINDS:
            values = [bits[cell.connections[port][0]] for port in _PORTS[cell.type]]
            bits[cell.connections["Y"][0]] = _KINDS[cell.type](*values)
    return [*(bits[each["D"][0]] for each in registers), bits[netlist.outputs["o"][0]]]


def _always_the_same(netlist: Netlist) -> bool:
    """By visiting all pairs of states that two copies can come to."""
    waiting = [(state, state) for state in itertools.product((0, 1), repeat=4)]
    seen = {*waiting}
    for pair in waiting:
        for inputs in itertools.product((0, 1), repeat=2):
            (*left, one), (*right, other) = (_step(netlist, state, inputs, copy) for copy, state in enumerate(pair))
            if one != other:
                return False
            after = tuple(left), tuple(right)
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return True


@pytest.mark.parametrize("count", [15, thorough(200)])
def test_random_netlists(count: int) -> None:
    """Nothing is called equivalent that all pairs of states show to differ; and most of what does not is proven."""
    generator = Random(count)
    proven = same = 0
    for _ in range(count):
        netlist = _random(generator)
        is_same, claimed = _always_the_same(netlist), is_equivalent(netlist, "switch")
        assert is_same or not claimed
        same, proven = same + is_same, proven + claimed
    assert proven > 0.8 * same > 0
