"""Costs of features: pairs of designs that differ in one feature only.

Most are two components, one with the feature and one without. Features that our hardware always has (NaN and infinite
operands, rounding, exponents) are removed from a design by holding wires at a value before synthesis. So the design
itself is measured, without the logic behind these wires, and not a second design written for the purpose.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.area.subject.points import (
    ADDER,
    CONVERTER,
    MULTIPLIER,
    PROCESSING_ELEMENT,
    PRODUCT,
    Point,
    Tie,
    made_point,
    once,
    point,
)
from openmxu.arith import Converter, Multiplier, MultiplyAdd
from openmxu.spec.formats import BF16, FP32, TF32, FloatFormat

MULTIPLY_ADD = "multiply-add"


@dataclass(frozen=True)
class Ablation:
    """A feature of a part."""

    feature: str
    """Name of the feature, in words."""
    whole: Point
    without: Point
    """The design that has it, and the one that does not."""

    @property
    def subject(self) -> str:
        """The design that has the feature, in words."""
        return f"{self.whole.part} {self.whole.format}"


class _Truncated(wiring.Component):
    """The exact product's upper half: a bf16 product rounded towards zero."""

    def __init__(self) -> None:
        super().__init__({"i_a": In(BF16.width), "i_b": In(BF16.width), "o": Out(BF16.width)})

    def elaborate(self, platform: object) -> Module:
        """A multiplier to fp32, whose result is cut."""
        m = Module()
        m.submodules.multiplier = multiplier = Multiplier(BF16, FP32)
        m.d.comb += [
            multiplier.i_a.eq(self.i_a),
            multiplier.i_b.eq(self.i_b),
            self.o.eq(multiplier.o[FP32.width - BF16.width :]),
        ]
        return m


class _Generator(wiring.Component):
    """A multiply-add with random rounding, and a generator of its words: Marsaglia's xorshift of 32 bits."""

    def __init__(self) -> None:
        super().__init__({"i_a": In(BF16.width), "i_b": In(BF16.width), "i_c": In(32), "o": Out(32)})

    def elaborate(self, platform: object) -> Module:
        """Three shifts and exclusive ors a cycle; the upper bits are the word."""
        m = Module()
        m.submodules.multiply_add = multiply_add = MultiplyAdd(BF16, stochastic=True)
        state = Signal(32, init=1)
        first = state ^ (state << 13)[:32]
        second = first ^ (first >> 17)
        m.d.sync += state.eq(second ^ (second << 5)[:32])
        m.d.comb += [
            *(getattr(multiply_add, name).eq(getattr(self, name)) for name in ("i_a", "i_b", "i_c")),
            multiply_add.i_noise.eq(state[-len(multiply_add.i_noise) :]),
            self.o.eq(multiply_add.o),
        ]
        return m


_E8F15 = FloatFormat.parse("e8f15")

_NO_SPECIALS = "no NaN or infinite operands"
_TRUNCATED = "rounding towards zero"
_SIMPLE = "no NaN or infinite operands, rounding towards zero"

_FLAGS = ("nan", "infinite")
_MULTIPLIER_FLAGS = tuple(Tie(f"exact.{flag}") for flag in _FLAGS)
_ADDER_FLAGS = tuple(Tie(f"{operand}.{flag}") for operand in ("a", "b") for flag in _FLAGS)
_SUM = "normalised_sum.significand"
_ADDER_EXCESS = Tie(_SUM, bits=4)
"""The bits that rounding reads: those of the sum below the 24 that stay."""


def _inside(prefix: str, *ties: Tie) -> tuple[Tie, ...]:
    return tuple(Tie(f"{prefix}.{tie.field}", tie.value, tie.bits) for tie in ties)


def _accumulating(fmt: FloatFormat) -> Point:
    return made_point(
        MULTIPLY_ADD,
        BF16,
        BF16.significand_width,
        lambda: MultiplyAdd(BF16, fmt),
        (MultiplyAdd, fmt),
        variant=f"sum in {fmt}",
        options={"sum": fmt.name},
    )


def _at_random(part: str, words: str, make: Callable[[], Any]) -> Point:
    return made_point(part, BF16, BF16.significand_width, make, (words, part), variant=words)


def _truncated(variant: str, *ties: Tie) -> Point:
    return made_point(MULTIPLIER, BF16, BF16.significand_width, _Truncated, _Truncated, variant=variant, ties=ties)


def _ablations() -> list[Ablation]:
    on_gates = partial(point, scope="area")
    multiplier, adder, pe = (
        point(part, fmt) for part, fmt in ((MULTIPLIER, BF16), (ADDER, FP32), (PROCESSING_ELEMENT, BF16))
    )
    full = [
        on_gates(part, fmt, subnormals="ieee")
        for part, fmt in ((MULTIPLIER, BF16), (ADDER, FP32), (PROCESSING_ELEMENT, BF16))
    ]
    pe_flags = _inside("multiply_add", *_MULTIPLIER_FLAGS, *(Tie(f"c.{flag}") for flag in _FLAGS))
    pe_excess = _inside("multiply_add", Tie(_SUM, bits=5))
    return [
        Ablation("gradual underflow", full[0], multiplier),
        Ablation("rounding to nearest", multiplier, _truncated(_TRUNCATED)),
        Ablation(
            "NaN and infinite operands",
            multiplier,
            on_gates(MULTIPLIER, BF16, variant=_NO_SPECIALS, ties=_MULTIPLIER_FLAGS),
        ),
        Ablation(
            "exponents, overflow and underflow",
            multiplier,
            on_gates(MULTIPLIER, BF16, variant="exponent constant", ties=[Tie("exact.exponent", 255)]),
        ),
        Ablation("all but the significand product", multiplier, point(PRODUCT, BF16)),
        Ablation(
            "gradual underflow, rounding, NaN and infinite operands",
            full[0],
            _truncated(_SIMPLE, *_inside("multiplier", *_MULTIPLIER_FLAGS)),
        ),
        Ablation("two pipeline stages", on_gates(MULTIPLIER, BF16, stages=2), multiplier),
        Ablation("gradual underflow", full[1], adder),
        Ablation("rounding to nearest", adder, on_gates(ADDER, FP32, variant=_TRUNCATED, ties=[_ADDER_EXCESS])),
        Ablation("NaN and infinite operands", adder, on_gates(ADDER, FP32, variant=_NO_SPECIALS, ties=_ADDER_FLAGS)),
        Ablation(
            "gradual underflow, rounding, NaN and infinite operands",
            full[1],
            on_gates(ADDER, FP32, variant=_SIMPLE, ties=[*_ADDER_FLAGS, _ADDER_EXCESS]),
        ),
        Ablation("five pipeline stages", on_gates(ADDER, FP32, stages=5), adder),
        Ablation("gradual underflow", full[2], pe),
        Ablation("rounding to nearest", pe, on_gates(PROCESSING_ELEMENT, BF16, variant=_TRUNCATED, ties=pe_excess)),
        Ablation(
            "NaN and infinite operands", pe, on_gates(PROCESSING_ELEMENT, BF16, variant=_NO_SPECIALS, ties=pe_flags)
        ),
        Ablation(
            "gradual underflow, rounding, NaN and infinite operands",
            full[2],
            on_gates(PROCESSING_ELEMENT, BF16, variant=_SIMPLE, ties=[*pe_flags, *pe_excess]),
        ),
        Ablation("six pipeline stages in place of one", on_gates(PROCESSING_ELEMENT, BF16, stages=6), pe),
        *(
            Ablation(f"fp32 sums in place of {fmt}", _accumulating(FP32), _accumulating(fmt))
            for fmt in (_E8F15, TF32, BF16)
        ),
        *(
            Ablation(f"{words} in place of nearest", _at_random(part, words, make), nearest)
            for part, words, make, nearest in (
                (MULTIPLY_ADD, "random rounding", lambda: MultiplyAdd(BF16, stochastic=True), _accumulating(FP32)),
                (MULTIPLY_ADD, "random rounding, with a generator of words,", _Generator, _accumulating(FP32)),
                (CONVERTER, "random rounding", lambda: Converter(FP32, BF16, stochastic=True), point(CONVERTER, BF16)),
            )
        ),
    ]


ABLATIONS = tuple(_ablations())
"""The features of the bf16 multiplier, the fp32 adder and the bf16 processing element."""


def ablation_points() -> list[Point]:
    """The designs of all ablations, each once."""
    return once(design for row in ABLATIONS for design in (row.whole, row.without))
