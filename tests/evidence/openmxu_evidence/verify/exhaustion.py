"""All operands, or a hundred million biased ones, on the gates that synthesis makes of the arithmetic.

Expected results come from the arithmetic of the processor that this runs on (``host.c``), not from the
golden model: two sources that share nothing. For sums of products, which it has not, they come from integers.
"""

import ctypes
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from amaranth.hdl import Shape

from openmxu.area.target.gates import gates, mapped
from openmxu.arith import Adder, Converter, DotProductAdd, Multiplier, Splitter
from openmxu.export.verilog import to_rtlil
from openmxu.runtime.native import resource
from openmxu.spec.formats import BF16, FP16, FP32, FloatFormat
from openmxu.spec.forms import AREA
from openmxu.spec.passes import Part
from openmxu.yosys.netlist import Bit, Netlist
from openmxu_evidence.verify.exact_sums import exact_sums
from openmxu_sim import golden
from openmxu_sim.netlist.bitslice import LANES, Gates, bit_slices
from openmxu_sim.netlist.native import compile_c
from openmxu_sim.operands import vectors
from openmxu_sim.operands.aliases import Progress, Words

_HALF = 1 << 16
_PAIRS = 1 << 20
Batch = tuple[Words, Words, Words]
"""Sums, and the operands of their products: (count, terms) twice."""
_WRONG = ctypes.c_uint32 * 4


@dataclass(frozen=True)
class Sweep:
    """A unit whose operands together have 32 bits."""

    name: str
    """Name of the operation."""
    make: Callable[[str], Any]
    """Makes the unit, a splitter where there is a part, from its mode of subnormals."""
    inputs: tuple[str, ...]
    """Its ports, the lower half of the 32 bits first."""
    oracle: str
    """C file that computes the expected results."""
    part: Part = Part.WHOLE
    """The part that a splitter is told to make."""


def _told(subnormals: str, part: Part, change: Callable[[str], str] | None) -> Netlist:
    """Return the gates of a splitter that makes one part only, ``change`` being one of its RTLIL."""
    splitter, top = Splitter(subnormals=subnormals), "attribute \\top 1\n"
    rtlil = to_rtlil(splitter)
    text = f"""{(rtlil if change is None else change(rtlil)).replace(top, "")}
{top}module \\told
  wire width {FP32.width} input 1 \\i
  wire width {BF16.width} output 2 \\o
  cell \\{splitter.module_name} \\splitter
    connect \\i \\i
    connect \\i_part {Shape.cast(Part).width}'{part:b}
    connect \\o \\o
  end
end
"""
    return mapped(text, "told")


def _part_name(part: Part) -> str:
    return f"{part.name.lower()} part of fp32"


SWEEPS = {
    sweep.name: sweep
    for sweep in (
        Sweep(
            "bf16 x bf16 -> fp32", lambda mode: Multiplier(BF16, FP32, subnormals=mode), ("i_b", "i_a"), "multiplier.c"
        ),
        Sweep("fp32 -> bf16", lambda mode: Converter(FP32, BF16, subnormals=mode), ("i",), "converter.c"),
        Sweep("fp16 + fp16", lambda mode: Adder(FP16, subnormals=mode), ("i_b", "i_a"), "adder_fp16.c"),
        *(
            Sweep(_part_name(part), lambda mode: Splitter(subnormals=mode), ("i",), "splitter.c", part)
            for part in Part
            if part is not Part.WHOLE  # that is the conversion
        ),
    )
}
"""Units that are checked exhaustively. The class of the fp16 adder adds fp32, too."""


@dataclass(frozen=True)
class Tally:
    """Number of results compared, number of wrong ones, and the first wrong one in words."""

    count: int
    wrong: int
    first: str = ""


def sweep(
    name: str, subnormals: str, *, change: Callable[[str], str] | None = None, progress: Progress | None = None
) -> Tally:
    """Compare all 2^32 results of a unit, or those up to the first wrong ones."""
    chosen = SWEEPS[name]
    if chosen.part is Part.WHOLE:
        return _sweep(chosen, gates(chosen.make(subnormals), change=change), subnormals, progress)
    return _sweep(chosen, _told(subnormals, chosen.part, change), subnormals, progress)


def _sweep(chosen: Sweep, netlist: Any, subnormals: str, progress: Progress | None) -> Tally:
    function = _compile(netlist, chosen.inputs, chosen.oracle, "sweep.c", part=chosen.part).sweep
    function.restype = ctypes.c_uint64
    step = _HALF // 64  # often enough for progress, and to be interrupted
    for start in range(0, _HALF, step):
        example = _WRONG()
        wrong = function(ctypes.c_uint32(start), ctypes.c_uint32(start + step), int(subnormals == "flush"), example)
        if wrong:
            a, b, got, expected = example
            operands = f"{a << 16 | b:08X}" if len(chosen.inputs) == 1 else f"{a:04X} {b:04X}"
            return Tally((start + step) * _HALF, wrong, f"{operands}: got {got:X}, expected {expected:X}")
        if progress is not None:
            progress(start + step, _HALF)
    return Tally(_HALF * _HALF, 0)


def parts(subnormals: str, *, change: Callable[[str], str], progress: Progress | None = None) -> Tally:
    """Compare all parts of all fp32 numbers, or those up to the first wrong ones; no reserved part is asked for."""
    changed = change(to_rtlil(Splitter(subnormals=subnormals)))
    count = 0
    for part in Part:
        name = "fp32 -> bf16" if part is Part.WHOLE else _part_name(part)
        tally = _sweep(SWEEPS[name], _told(subnormals, part, lambda _: changed), subnormals, progress)
        count += tally.count
        if tally.wrong:
            return replace(tally, count=count)
    return Tally(count, 0)


def additions(
    subnormals: str,
    stages: int,
    count: int,
    *,
    seed: int = 0,
    change: Callable[[str], str] | None = None,
    progress: Progress | None = None,
) -> Tally:
    """Compare biased fp32 sums, or those up to the first wrong ones: pairs of
    :func:`openmxu_sim.operands.vectors.pairs`, and 95 relatives of each.

    A relative has both exponents and signs moved together, and every second one a bit of one operand flipped:
    what makes a pair hard survives, at another place.
    """
    relatives = 96
    netlist = gates(Adder(FP32, subnormals=subnormals, stages=stages), change=change)
    function = _compile(netlist, ("i_a", "i_b"), "additions.c", latency=stages).additions
    function.restype = ctypes.c_uint64
    pairs = min(_PAIRS, -(-count // relatives // LANES) * LANES)
    done = 0
    while done < count:
        a, b = vectors.pairs("fp32", pairs, seed)
        example = _WRONG()
        wrong = function(
            a.ctypes.data_as(ctypes.c_void_p),
            b.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(pairs // LANES),
            relatives,
            ctypes.c_uint32(seed),
            int(subnormals == "flush"),
            example,
        )
        done += pairs * relatives
        if wrong:
            return Tally(done, wrong, "{:08X} {:08X}: got {:08X}, expected {:08X}".format(*example))
        seed += 1
        if progress is not None:
            progress(done, count)
    return Tally(done, 0)


def apart(netlist: Netlist, terms: int) -> tuple[Netlist, list[str]]:
    """A sum of products with a port for each operand, and the names of its ports; scales come before the addend."""
    inputs: dict[str, tuple[Bit, ...]] = {}
    scales = [(name, 1) for name in ("i_scale_a", "i_scale_b") if name in netlist.inputs]
    for name, count in (("i_a", terms), ("i_b", terms), *scales, ("i_c", 1)):
        bits = netlist.inputs[name]
        width = len(bits) // count
        inputs |= {f"{name}_{index}": bits[index * width : (index + 1) * width] for index in range(count)}
    return replace(netlist, inputs=inputs), list(inputs)


def dot_products(operand: str, result: str, draw: Callable[[], Iterable[Batch]], *, form: str = AREA) -> Tally:
    """Compare sums of products with integers of Python, up to the first batch with wrong ones."""
    gates_of, count = None, 0
    for c, a, b in draw():
        if gates_of is None:
            formats = FloatFormat.parse(operand, "operand"), FloatFormat.parse(result, "result")
            unit = DotProductAdd(*formats, terms=a.shape[1])
            gates_of = Gates(*apart(gates(unit, form=form), unit.terms))
        got, expected = gates_of(*a.T, *b.T, c), exact_sums(c, a, b, operand, result)
        count += len(c)
        for at in np.flatnonzero(got != expected)[:1]:
            operands = " + ".join(f"{x:X}·{y:X}" for x, y in zip(a[at], b[at], strict=True))
            first = f"{c[at]:X} + {operands}: got {got[at]:X}, expected {expected[at]:X}"
            return Tally(count, int(np.count_nonzero(got != expected)), first)
    return Tally(count, 0)


def products_in_pairs() -> Iterator[Batch]:
    """All 2^16 operands of two terms in e2f1, with sums in e4f3 of each kind: among them odd and even ones that
    products take to a tie.
    """
    words = np.arange(16, dtype=np.uint32)
    every = np.stack(np.meshgrid(words, words, words, words), axis=-1).reshape(-1, 4)
    zeros_and_specials = 0x00, 0x80, 0x01, 0x78, 0xF8, 0x7C
    for c in (*zeros_and_specials, 0x08, 0x77, 0xF7, 0x38, 0xB9, 0x58, 0x59, 0xD9, 0x60, 0xE1):
        yield np.full(len(every), c, dtype=np.uint32), every[:, :2], every[:, 2:]


def biased_products(count: int) -> Iterator[Batch]:
    """A sum of fp32 and four products of bf16, so many times or some more: any patterns, and products that meet."""
    for seed in range(-(-count // 20_000)):
        b = vectors.operands("bf16", 80_000, seed).reshape(-1, 4)
        a = np.concatenate([vectors.matching("bf16", b[5_000:], seed), b[:5_000]])
        sums = vectors.partners("fp32", golden.multiply(a[:, 0], b[:, 0], "bf16", "fp32"), seed)
        yield vectors.canonical(sums), a, b


def _compile(netlist: Any, inputs: tuple[str, ...], *sources: str, latency: int = 0, part: Part = Part.WHOLE) -> Any:
    """Compile the gates, and C files of this package behind them."""
    own = [resource("openmxu_evidence.verify", f"sweeps/{name}") for name in ("host.c", *sources)]
    return compile_c(
        "\n".join(
            [
                resource("openmxu_sim.netlist", "lanes.c"),
                bit_slices(netlist, inputs),
                f"enum {{ LATENCY = {latency}, PART = {int(part)} }};",
                *own,
            ]
        )
    )
