"""Circuits that do the same are told from those that do not; and modules can be left as boxes."""

import re
from collections.abc import Callable

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.memory import Memory

from openmxu_sim.netlist.circuit import Circuit
from openmxu_sim.netlist.compare import find_difference
from openmxu_sim.netlist.rtlil import HIGH, LOW, NetlistError, flatten, read_interface

Logic = Callable[[Module, Value, Value], Value]
"""What two inputs of four bits become."""


def design(logic: Logic) -> tuple[Module, Signal, Signal, Signal]:
    """A module of four bits from twice four, and its ports."""
    m, a, b, o = Module(), *(Signal(4, name=name) for name in ("i_a", "i_b", "o"))
    m.d.comb += o.eq(logic(m, a, b))
    return m, a, b, o


def text(logic: Logic) -> str:
    m, *ports = design(logic)
    return rtlil.convert(m, name="top", ports=ports, emit_src=False)


def difference(a: Logic, b: Logic) -> str:
    one, other = (Circuit(text(logic), "top") for logic in (a, b))
    pairs = zip(one.outputs["o"], other.outputs["o"], strict=True)
    return find_difference(one, other, pairs, lambda x, y: x == y)


def register(name: str, init: int = 5, shape: int = 4) -> Logic:
    def logic(m: Module, a: Value, b: Value) -> Value:
        total = Signal(shape, name=name, init=init)
        with m.If(b[0]):
            m.d.sync += total.eq(total + a)
        return total[:4]

    return logic


def memory(name: str, depth: int = 8, late: bool = False) -> Logic:
    def logic(m: Module, a: Value, b: Value) -> Value:
        m.submodules[name] = words = Memory(shape=4, depth=depth, init=[])
        write, read = words.write_port(), words.read_port()
        m.d.comb += [write.addr.eq(a), write.data.eq(b), write.en.eq(b[3]), read.addr.eq(b if late else a)]
        return read.data

    return logic


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        (register("one"), register("other"), ""),
        (memory("one"), memory("other"), ""),
        (lambda m, a, b: Cat(Mux(b[0], a, b)[:2], Mux(b[0], a, b)[2:]), lambda m, a, b: Mux(b[0], a, b), ""),
        (lambda m, a, b: a + b, lambda m, a, b: (a + b)[:4], ""),
        (lambda m, a, b: 5, lambda m, a, b: Cat(1, 0, 1, 0), ""),
        (register("one"), register("one", init=4), "bit 0 of register o is not like bit 0 of register o"),
        (register("one"), lambda m, a, b: a, "bit 3 of register o is not like bit 3 of input i_a"),
        (register("one"), register("one", shape=5), "bit 3 of add is not like bit 3 of add"),
        (memory("one"), memory("one", depth=4), "bit 3 of read o is not like bit 3 of read o"),
        (memory("one"), memory("one", late=True), "bit 2 of input i_a is not like bit 2 of input i_b"),
        (lambda m, a, b: a & b, lambda m, a, b: a | b, "bit 3 of and is not like bit 3 of or"),
        (lambda m, a, b: a, lambda m, a, b: a[::-1], "bit 3 of input i_a is not like bit 0 of input i_a"),
        (lambda m, a, b: a, lambda m, a, b: Cat(a[:3], 1), "bit 3 of input i_a is not like constant 1"),
        (lambda m, a, b: a < b, lambda m, a, b: b < a, "bit 3 of input i_b is not like bit 3 of input i_a"),
        (lambda m, a, b: a == b, lambda m, a, b: a[:3] == b[:3], "bit 0 of equal is not like bit 0 of equal"),
    ],
)
def test_differences(a: Logic, b: Logic, found: str) -> None:
    assert difference(a, b) == found


def boxed() -> str:
    """A design with a module in it, whose ports Amaranth calls otherwise than its signals."""
    inner, i_a, i_b, o = design(lambda m, a, b: Cat(a[:2], b[:2]) ^ b[0])

    def logic(m: Module, a: Value, b: Value) -> Value:
        m.submodules.inner = inner
        m.d.comb += [i_a.eq(Cat(b[1], 1)), i_b.eq(a)]
        return Cat(o[3], o[:3])

    return text(logic)


def test_boxes_and_interfaces() -> None:
    flat = flatten(boxed(), "top", boxes=["top.inner"])
    [box] = flat.boxes
    assert (box.name, box.type, flat.cells) == ("inner", "top.inner", [])
    a, b = flat.inputs["i_a"], flat.inputs["i_b"]
    assert box.wire("i_a") == (b[1], HIGH, LOW, LOW)
    assert box.wire("i_b")[:2] == a[:2]
    shown = box.wire("o")
    assert [flat.root(bit) for bit in flat.outputs["o"]] == [shown[3], *shown[:3]]
    interface = read_interface(boxed(), "top.inner")
    assert interface.outputs == {"o": 4}
    assert interface.inputs["i_b"] == 4
    [other] = interface.inputs.keys() - {"i_b"}
    assert interface.wires["i_a"] == ((other, 0), HIGH, LOW, LOW)
    assert interface.wires["i_b"] == tuple(("i_b", place) for place in range(4))


def test_messages() -> None:
    text, count = re.subn(r"^    connect \\o .*\n", "", boxed(), flags=re.MULTILINE)
    assert count == 1
    with pytest.raises(NetlistError, match=r"^port o of inner must be connected to 4 bits$"):
        flatten(text, "top", boxes=["top.inner"])
    with pytest.raises(NetlistError, match=r"^module .wombat is not there$"):
        read_interface(boxed(), "wombat")
