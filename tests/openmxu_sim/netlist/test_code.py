"""Circuits as C, and netlists as functions, compute what they are to; forms compiled in a way of their own, too."""

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.memory import Memory

from openmxu.area.target.gates import gates
from openmxu.arith import Adder
from openmxu.runtime import native
from openmxu.spec.formats import FP16
from openmxu.yosys.netlist import Cell, Netlist
from openmxu_sim import golden
from openmxu_sim.netlist.bitslice import BLOCK, Gates, bit_slices
from openmxu_sim.netlist.circuit import Circuit
from openmxu_sim.netlist.code import Code
from openmxu_sim.netlist.native import compile_c
from openmxu_sim.operands import vectors

from ...bits import same_bits

_Case = tuple[Callable[[Module, Value], Any], Callable[[int], int]]


def _compiled(m: Module, ports: list[Signal], **options: Any) -> tuple[Circuit, str, Callable[..., np.ndarray]]:
    """The circuit of an input and some outputs, its C text, and that as a function of many inputs, in words of 32 bits.

    Outputs are beside each other; registers begin with 0.
    """
    circuit = Circuit(rtlil.convert(m, name="form", ports=ports, emit_src=False), "form")
    code = Code(circuit, "form", lanes=False)
    code.function("step", [port.name for port in ports[1:]], **options)
    words = [-(-len(port) // 32) for port in ports]
    outputs = [(port.name, count) for port, count in zip(ports[1:], words[1:], strict=True)]
    library = compile_c(
        f"""#include <stdint.h>
#include <string.h>
{code.text()}
void run(const uint32_t *in, uint32_t *out, int count) {{
  static struct form_state state;
  for (int n = 0; n < count; n++) {{
    struct form_in i;
    struct form_out o;
    memcpy(i.i, in + n * {words[0]}, 4 * {words[0]});
    form_step(&state, &i, &o);
    {" ".join(f"memcpy(out, o.{name}, 4 * {count}); out += {count};" for name, count in outputs)}
  }}
}}"""
    )

    def run(given: np.ndarray) -> np.ndarray:
        found = np.empty((len(given), sum(words[1:])), np.uint32)
        library.run(*(array.ctypes.data_as(ctypes.c_void_p) for array in (given, found)), len(given))
        return found

    return circuit, code.text(), run


def _named(m: Module, value: Value, width: int) -> Value:
    named = Signal(width)
    m.d.comb += named.eq(value)
    return named


def _shift_up(low: int, by: int, top: int = 24, *, where: bool = False, negated: bool = False) -> _Case:
    """A product of 24 bits, up by some bits, filled with bit 31, where any or no bit of it is high from ``low`` on."""

    def form(m: Module, i: Value) -> Value:
        word = _named(m, i[:12] * i[12:24], 24)
        shifted = Cat(i[31].replicate(by), word[: 24 - by])
        upper = word[low:top].any()
        choices = (shifted, word) if where else (word, shifted)
        return Mux(~upper, *choices[::-1]) if negated else Mux(upper, *choices)

    def expected(word: int) -> int:
        product = (word & 0xFFF) * (word >> 12 & 0xFFF)
        upper = (product & (1 << top) - 1) >> low != 0
        return (product << by & 0xFFFFFF) | ((1 << by) - 1) * (word >> 31) if upper == where else product

    return form, expected


def _together(m: Module, i: Value) -> tuple[Value, Value]:
    """Fields of the input in another order, and some of them in the same order without the others."""
    return _named(m, Cat(i[3:10], i[20], i[22:30], i[0]), 17), Cat(i[5:10], i[20], i[22:30])


def _together_of(word: int) -> int:
    return word >> 3 & 0x7F | (word >> 20 & 1) << 7 | (word >> 22 & 0xFF) << 8 | (word & 1) << 16


def _orders(m: Module, i: Value) -> Value:
    """Comparisons of bytes, unsigned and signed, and shifts by a number."""
    pairs = [(i[:8], i[8:16]), (i[:8].as_signed(), i[8:16].as_signed())]
    bits = [bit for a, b in pairs for bit in (a < b, a <= b, a > b, a >= b, a == b, a != b)]
    return Cat(*bits, (i[:8].as_signed() >> i[28:32])[:8], i[:8] >> i[28:32])


def _orders_of(word: int) -> int:
    a, b = word & 0xFF, word >> 8 & 0xFF
    pairs = (a, b), tuple((each ^ 0x80) - 0x80 for each in (a, b))
    bits = [bit for a, b in pairs for bit in (a < b, a <= b, a > b, a >= b, a == b, a != b)]
    shifted = (pairs[1][0] >> (word >> 28)) & 0xFF
    return sum(bit << at for at, bit in enumerate(bits)) | shifted << 12 | (a >> (word >> 28)) << 20


def _bits_of(total: int) -> int:
    return total >> 11 | (total >> 2 & 31) << 1 | 7 * (total >> 11) << 6


FORMS: dict[str, _Case] = {
    "comparisons and shifts": (_orders, _orders_of),
    "a bit masks a word that it reaches beyond": (
        lambda m, i: (i >> 8) & i[31].replicate(24),
        lambda word: word >> 8 if word >> 31 else 0,
    ),
    "a bit masks the lower part of a word": (
        lambda m, i: (i >> 8) & Cat(i[31].replicate(10), Const(0, 14)),
        lambda word: word >> 8 & 0x3FF if word >> 31 else 0,
    ),
    "up where nothing is lost": _shift_up(16, 8),
    "up where nothing is lost, asked the other way round": _shift_up(16, 8, negated=True),
    "up by one where the top bit is low": _shift_up(23, 1),
    "up where bits may be lost": _shift_up(20, 8),
    "up where more bits are known to be low": _shift_up(12, 8),
    "up where the top bit may be lost": _shift_up(16, 8, 23),
    "up where bits are lost": _shift_up(16, 8, where=True),
    "up where bits are lost, asked the other way round": _shift_up(16, 8, where=True, negated=True),
    "a carry into a sum": (
        lambda m, i: (i[:16] + i[8:24] + i[31])[:16],
        lambda word: (word + (word >> 8 & 0xFFFF) + (word >> 31)) & 0xFFFF,
    ),
    "two carries into a sum": (
        lambda m, i: i[:16] + Cat(i[30:32], Const(0, 14)),
        lambda word: (word & 0xFFFF) + (word >> 30),
    ),
    "a borrow": (lambda m, i: (i[:16] - i[31])[:12], lambda word: (word - (word >> 31)) & 0xFFF),
    "bits of a sum that is wider than its parts": (
        lambda m, i: Cat((total := _named(m, i[:12] + i[16:28] + i[8:20], 12))[11], total[2:7], total[11].replicate(3)),
        lambda word: _bits_of((word & 0xFFF) + (word >> 16 & 0xFFF) + (word >> 8 & 0xFFF) & 0xFFF),
    ),
    "any of bits above constant ones": (
        lambda m, i: Cat(Const(0, 3), i[4:9]).any(),
        lambda word: int(word >> 4 & 31 != 0),
    ),
    "all of bits, of which one is never high": (
        lambda m, i: Cat(i[3:6], i[9], _named(m, i[:3] + i[3:6], 8)[3:5]).all(),
        lambda word: 0,
    ),
    "some bits of a word that is there": (
        lambda m, i: Mux(i[31], *_together(m, i)),
        lambda word: _together_of(word) if word >> 31 else _together_of(word) >> 2 & 0x3FFF,
    ),
    "any of some bits of a word that is there": (
        lambda m, i: Cat((pair := _together(m, i))[0], pair[1].any(), pair[1].all()),
        lambda word: (
            (whole := _together_of(word))
            | int(whole >> 2 & 0x3FFF != 0) << 17
            | int(whole >> 2 & 0x3FFF == 0x3FFF) << 18
        ),
    ),
}
"""What is compiled, and what it must be."""


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    form, expected = FORMS[name]
    rng = np.random.default_rng(7)
    words = rng.integers(0, 1 << 32, 20000, dtype=np.uint32)
    words[1::2] >>= rng.integers(0, 32, len(words) // 2).astype(np.uint32)  # many upper bits low
    words[2::4] |= np.uint32(1 << 31)
    words[3::8] |= np.uint32(0x7FFFFFFF)
    m, i, o = Module(), Signal(32, name="i"), Signal(32, name="o")
    m.d.comb += o.eq(form(m, i))
    _, text, run = _compiled(m, [i, o], inputs=["i"])
    assert run(words)[:, 0].tolist() == [expected(int(word)) for word in words]
    assert name != "a bit masks the lower part of a word" or "0x3ff" in text


@pytest.mark.parametrize(("width", "cycles"), [(1, 65), (16, 5), (16, 127), (33, 2), (40, 9)])
@pytest.mark.parametrize("tapped", [False, True])
def test_delays(width: int, cycles: int, tapped: bool) -> None:
    """A register that moves by a value in each cycle: a ring, unless something looks at it on the way."""
    m, i, o, tap = Module(), Signal(width, name="i"), Signal(width, name="o"), Signal(name="tap")
    line = Signal(width * cycles, reset_less=True)
    m.d.sync += line.eq(Cat(i, line))
    m.d.comb += [o.eq(line[-width:]), tap.eq(line[width - 1] if tapped else 0)]
    circuit, _, run = _compiled(m, [i, o, tap], clock=True)
    assert {register.cycles for register in circuit.registers.values()} == {1 if tapped else cycles}
    words = [int.from_bytes(np.random.default_rng(n).bytes(8), "little") % (1 << width) for n in range(3 * cycles)]
    high = 0xFFFFFFFF if width == 1 else 1  # a bit is all ones
    given = np.array([[word * high >> at & 0xFFFFFFFF for at in range(0, width, 32)] for word in words], np.uint32)
    found, taps = np.split(run(given), [-1], axis=1)
    taps = taps[:, 0] & 1
    assert (found[cycles:] == given[:-cycles]).all()
    assert not found[:cycles].any()
    assert taps.tolist() == [0, *(word >> width - 1 for word in words[:-1])] if tapped else not taps.any()


@pytest.mark.parametrize("width", [1, 2, 16, 17, 32, 33, 80])
def test_words_of_a_memory(width: int) -> None:
    """All of a word comes back, and one of one bit is all ones, as it masks others."""
    limbs = -(-width // 32)
    m, i, o = Module(), Signal(width, name="i"), Signal(32 * limbs, name="o")
    m.submodules.memory = memory = Memory(shape=width, depth=4, init=[])
    write, read = memory.write_port(), memory.read_port()
    m.d.comb += [write.data.eq(i), write.en.eq(1)]
    m.d.comb += o.eq(Mux(read.data[0], -1, read.data))
    _, _, run = _compiled(m, [i, o], clock=True)
    for word in (0, 1, (1 << width) - 1, (1 << width) - 2, (1 << width) // 3 & ~1):
        given = -word if width == 1 else word
        found = run(np.uint32([[given >> 32 * limb & 0xFFFFFFFF for limb in range(limbs)]] * 3))[2]
        seen = sum(int(limb) << 32 * index for index, limb in enumerate(found))
        assert seen == ((1 << 32 * limbs) - 1 if word & 1 else word)


# Netlists as functions


@pytest.mark.parametrize("stages", [0, 2])
def test_sums(stages: int) -> None:
    adder = Gates(gates(Adder(FP16, stages=stages)), ["i_a", "i_b"], latency=stages)
    for count in (1, BLOCK - 1, BLOCK + 1):
        a, b = vectors.pairs("fp16", count, seed=5)
        same_bits(adder(a, b), golden.add(a, b, "fp16"), a, b, fmt="fp16", operand="fp16", note="seed 5")
        same_bits(adder(a, int(b[0])), golden.add(a, b[0], "fp16"), a, b[0], fmt="fp16", operand="fp16", note="seed 5")


def _netlist(*cells: tuple[str, dict[str, Any]]) -> Netlist:
    made = tuple(
        Cell(f"cell{index}", type_, {}, {port: (bit,) for port, bit in bits.items()}, frozenset("AB"))
        for index, (type_, bits) in enumerate(cells)
    )
    return Netlist("top", {"i": (2,)}, {"o": (3,)}, made, {}, {})


LOOP = _netlist(("$_NOT_", {"A": 4, "Y": 3}), ("$_AND_", {"A": 3, "B": 2, "Y": 4}))


@pytest.mark.parametrize(
    ("netlist", "inputs", "message"),
    [
        (_netlist(("NAND2", {"A": 2, "B": 2, "Y": 3})), "i", "consist of .*, not of NAND2"),
        (LOOP, "i", "be free of loops, not run in one through cell0"),
        (_netlist(("$_NOT_", {"A": 2, "Y": 3})), "ab", "have the inputs a, b and one output, not i, o"),
    ],
)
def test_messages(netlist: Netlist, inputs: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^netlist must {message}$"):
        bit_slices(netlist, list(inputs))


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(native.shutil, "which", lambda name: None)
    monkeypatch.setattr(native, "find_spec", lambda name: None)
    with pytest.raises(native.CompilerNotFoundError, match=r"^a C compiler is needed; install one .*\[zig\]'"):
        compile_c("")
    monkeypatch.setattr(native, "find_spec", lambda name: object())
    assert native.find_compiler() == [sys.executable, "-m", "ziglang", "cc"]


def test_refused_source() -> None:
    with pytest.raises(native.CompilationError, match=r"^C compiler /.* failed: .*error: .*nothing"):
        compile_c("int function(void) { return nothing; }")
