"""Circuits as C compute what they are to: forms that are compiled in a way of their own, beside Python's integers."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.memory import Memory

from openmxu_sim.netlist.circuit import Circuit
from openmxu_sim.netlist.code import Code
from openmxu_sim.netlist.native import compile_c

_Case = tuple[Callable[[Module, Value], Any], Callable[[int], int]]


def _compiled(form: Callable[[Module, Value], Any]) -> tuple[str, Any]:
    """The C text of a form, and the form as a function of many words."""
    m, i, o = Module(), Signal(32, name="i"), Signal(32, name="o")
    m.d.comb += o.eq(form(m, i))
    code = Code(Circuit(rtlil.convert(m, name="form", ports=[i, o], emit_src=False), "form"), "form", lanes=False)
    code.function("look", ["o"], inputs=["i"])
    text = code.text()
    library = compile_c(
        f"""#include <stdint.h>
{text}
void run(const uint32_t *in, uint32_t *out, int count) {{
  struct form_state state;
  for (int n = 0; n < count; n++) {{
    struct form_in i = {{ {{ in[n] }} }};
    struct form_out o;
    form_look(&state, &i, &o);
    out[n] = o.o[0];
  }}
}}"""
    )

    def run(words: np.ndarray) -> np.ndarray:
        found = np.empty_like(words)
        pointer = ctypes.c_void_p
        library.run(words.ctypes.data_as(pointer), found.ctypes.data_as(pointer), len(words))
        return found

    return text, run


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


FORMS: dict[str, _Case] = {
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
        lambda word: (
            (total := (word & 0xFFF) + (word >> 16 & 0xFFF) + (word >> 8 & 0xFFF) & 0xFFF) >> 11
            | (total >> 2 & 31) << 1
            | 7 * (total >> 11) << 6
        ),
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
    text, run = _compiled(form)
    assert run(words).tolist() == [expected(int(word)) for word in words]
    assert name != "a bit masks the lower part of a word" or "0x3ff" in text


@pytest.mark.parametrize(("width", "cycles"), [(1, 65), (16, 5), (16, 127), (33, 2), (40, 9)])
@pytest.mark.parametrize("tapped", [False, True])
def test_delays(width: int, cycles: int, tapped: bool) -> None:
    """A register that moves by a value in each cycle: a ring, unless something looks at it on the way."""
    m, i, o, tap = Module(), Signal(width, name="i"), Signal(width, name="o"), Signal(name="tap")
    line = Signal(width * cycles, reset_less=True)
    m.d.sync += line.eq(Cat(i, line))
    m.d.comb += [o.eq(line[-width:]), tap.eq(line[width - 1] if tapped else 0)]
    text = rtlil.convert(m, name="form", ports=[i, o, tap], emit_src=False)
    circuit = Circuit(text, "form")
    assert {register.cycles for register in circuit.registers.values()} == {1 if tapped else cycles}
    code = Code(circuit, "form", lanes=False)
    code.function("step", ["o", "tap"], clock=True)
    limbs = -(-width // 32)
    library = compile_c(
        f"""#include <stdint.h>
{code.text()}
void run(const uint32_t *in, uint32_t *out, uint32_t *taps, int count) {{
  static struct form_state state;
  for (int n = 0; n < count; n++) {{
    struct form_in i;
    struct form_out o;
    for (int limb = 0; limb < {limbs}; limb++) i.i[limb] = in[n * {limbs} + limb];
    form_step(&state, &i, &o);
    for (int limb = 0; limb < {limbs}; limb++) out[n * {limbs} + limb] = o.o[limb];
    taps[n] = o.tap[0] & 1;
  }}
}}"""
    )
    words = [int.from_bytes(np.random.default_rng(n).bytes(8), "little") % (1 << width) for n in range(3 * cycles)]
    high = 0xFFFFFFFF if width == 1 else 1  # a bit is all ones
    given = np.array([[word * high >> 32 * limb & 0xFFFFFFFF for limb in range(limbs)] for word in words], np.uint32)
    found, taps = np.empty_like(given), np.empty(len(given), np.uint32)
    library.run(*(array.ctypes.data_as(ctypes.c_void_p) for array in (given, found, taps)), len(given))
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
    text = rtlil.convert(m, name="form", ports=[i, o], emit_src=False)
    code = Code(Circuit(text, "form"), "form", lanes=False)
    code.function("step", ["o"], clock=True)
    library = compile_c(
        f"""#include <stdint.h>
#include <string.h>
{code.text()}
void run(const uint32_t *word, uint32_t *found) {{
  struct form_state state = {{ 0 }};
  struct form_in i;
  struct form_out o;
  memcpy(i.i, word, sizeof i.i);
  for (int n = 0; n < 3; n++) form_step(&state, &i, &o);
  memcpy(found, o.o, sizeof o.o);
}}"""
    )
    words = ctypes.c_uint32 * limbs
    for word in (0, 1, (1 << width) - 1, (1 << width) - 2, (1 << width) // 3 & ~1):
        given, found = -word if width == 1 else word, words()
        library.run(words(*(given >> 32 * limb & 0xFFFFFFFF for limb in range(limbs))), found)
        seen = sum(limb << 32 * index for index, limb in enumerate(found))
        assert seen == ((1 << 32 * limbs) - 1 if word & 1 else word)
