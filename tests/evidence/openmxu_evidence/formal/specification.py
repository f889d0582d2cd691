"""Specification of the arithmetic, in terms of SMT-LIB's theory of floating-point numbers.

It is written from the numerics contract alone and shares nothing with the hardware. An operation is a relation
between bit patterns, as the theory has no function from its numbers back to their patterns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Operation:
    """A function on bit patterns."""

    name: str
    """Name of the relation, whose arguments are the operands and then the result."""
    text: str
    """SMT-LIB text that defines it."""
    example: tuple[tuple[int, ...], int] | None = None
    """Operands and result of one case, worked out by hand; none where any operands suffice."""
    given: str = "true"
    """A condition on the operands ``x0``, ``x1``, ...: the operation is not specified for others."""
    means: str = ""
    """Function from a result to its meaning: results with equal meaning count as one. Empty: all results differ."""
    cases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Case splits for solvers that take too long otherwise: conditions on the operands ``x0``, ``x1``. A proof also
    shows that one of them always holds."""


_NUMBERS = """\
(define-sort Word () (_ BitVec 32))
(define-sort Half () (_ BitVec 16))
(define-sort Number () (_ FloatingPoint 8 24))
(define-fun number ((x Word)) Number ((_ to_fp 8 24) x))
(define-fun widened ((x Half)) Word (concat x #x0000))
(define-fun zero-of-sign ((x Word)) Word (bvand x #x80000000))
(define-fun flushed ((x Word)) Word (ite (fp.isSubnormal (number x)) (zero-of-sign x) x))
; The pattern o stands for the number r, NaN being the canonical one.
(define-fun shows ((r Number) (o Word)) Bool
  (ite (fp.isNaN r) (= o #x7fc00000) (= (number o) r)))
; The same if tiny results are flushed. The exact one is below the smallest normal number, which the format
; holds, exactly if it still is so when it is rounded towards zero: hence the second result.
(define-fun shows-flushed ((r Number) (towards-zero Number) (o Word)) Bool
  (ite (fp.lt (fp.abs towards-zero) (number #x00800000))
       (= o (ite (fp.isNegative r) #x80000000 #x00000000))
       (shows r o)))
"""

_ADD = {
    "ieee": """\
(define-fun add ((a Word) (b Word) (o Word)) Bool (shows (fp.add RNE (number a) (number b)) o))
""",
    "flush": """\
(define-fun add ((a Word) (b Word) (o Word)) Bool
  (let ((x (number (flushed a))) (y (number (flushed b))))
    (shows-flushed (fp.add RNE x y) (fp.add RTZ x y) o)))
""",
}

_MULTIPLY = {
    "ieee": """\
(define-fun multiply ((a Half) (b Half) (o Word)) Bool
  (shows (fp.mul RNE (number (widened a)) (number (widened b))) o))
""",
    "flush": """\
(define-fun multiply ((a Half) (b Half) (o Word)) Bool
  (let ((x (number (flushed (widened a)))) (y (number (flushed (widened b)))))
    (shows-flushed (fp.mul RNE x y) (fp.mul RTZ x y) o)))
""",
}

_CONVERT = """\
(define-fun convert ((x Word) (o Half)) Bool
  (ite (fp.isNaN (number x))
       (= o (bvor ((_ extract 31 16) x) #x0040))
       (= ((_ to_fp 8 8) o) ((_ to_fp 8 8) RNE (number {operand})))))
"""

# Rounding once more, by its definition: no neighbour is nearer, and of two equally near ones the even one is taken.
# The sums are exact in binary64, in which twice the operand is compared with twice the midpoint.
_NEAREST = """\
(define-sort Wide () (_ FloatingPoint 11 53))
; Where a magnitude lies; infinity where the next number would be if exponents went on.
(define-fun place ((m Half)) Wide
  (ite (= m #x7f80) ((_ to_fp 11 53) #x47f0000000000000) ((_ to_fp 11 53) RNE (number (widened m)))))
(define-fun twice-midpoint ((m Half)) Wide (fp.add RNE (place m) (place (bvadd m #x0001))))
(define-fun nearest ((magnitude Word) (m Half)) Bool
  (let ((x ((_ to_fp 11 53) RNE (number magnitude))) (even (= ((_ extract 0 0) m) #b0)))
    (let ((twice (fp.add RNE x x)))
      (and (bvule m #x7f80)
           (or (= m #x0000)
               (fp.lt (twice-midpoint (bvsub m #x0001)) twice)
               (and even (fp.eq (twice-midpoint (bvsub m #x0001)) twice)))
           (or (= m #x7f80)
               (fp.lt twice (twice-midpoint m))
               (and even (fp.eq twice (twice-midpoint m))))))))
(define-fun convert ((x Word) (o Half)) Bool
  (ite (fp.isNaN (number x))
       (= o (bvor ((_ extract 31 16) x) #x0040))
       (and (= ((_ extract 15 15) o) ((_ extract 31 31) x))
            (nearest (bvand {operand} #x7fffffff) (bvand o #x7fff)))))
"""


def _conversion(text: str, subnormals: str) -> Operation:
    # Both formats have the same exponents: flush mode only flushes operands.
    operand = "(flushed x)" if subnormals == "flush" else "x"
    return Operation("convert", _NUMBERS + text.format(operand=operand), ((0x3F81_8000,), 0x3F82))


_EQUAL_SIGNS = "(= ((_ extract 31 31) x0) ((_ extract 31 31) x1))"
_COMPARE_EXPONENTS = "({relation} ((_ extract 30 23) x0) ((_ extract 30 23) x1))"
_CASES = {
    "flush": {},
    "ieee": {
        "bitwuzla": (
            _EQUAL_SIGNS,
            *(
                f"(and (not {_EQUAL_SIGNS}) {_COMPARE_EXPONENTS.format(relation=relation)})"
                for relation in ("=", "bvult", "bvugt")
            ),
        )
    },
}

ADD = {
    mode: Operation("add", _NUMBERS + text, ((0x3F80_0000, 0x4000_0000), 0x4040_0000), cases=_CASES[mode])
    for mode, text in _ADD.items()
}
"""fp32 + fp32, by treatment of subnormals; 1 + 2 = 3."""

MULTIPLY = {
    mode: Operation("multiply", _NUMBERS + text, ((0x3FC0, 0xC000), 0xC040_0000)) for mode, text in _MULTIPLY.items()
}
"""bf16 x bf16 -> fp32, by treatment of subnormals; 1.5 · -2 = -3."""

# A product between the first and the second half of a multiply-add, and the word that it stands for. With the top bit
# at weight one, its significand may lack that bit, but not two; its exponent field is one less, or the exponent itself.
_PRODUCT = {
    "flush": """\
(define-sort Product () (_ BitVec 28))
(define-fun sign-of ((p Product)) (_ BitVec 1) ((_ extract 0 0) p))
(define-fun exponent-of ((p Product)) (_ BitVec 8) ((_ extract 8 1) p))
(define-fun significand-of ((p Product)) Half ((_ extract 24 9) p))
(define-fun has ((p Product) (bit (_ BitVec 28))) Bool (distinct (bvand p bit) (_ bv0 28)))
(define-fun is-zero ((p Product)) Bool (has p #x2000000))
(define-fun is-infinite ((p Product)) Bool (has p #x4000000))
(define-fun is-nan ((p Product)) Bool (has p #x8000000))
(define-fun top ((p Product)) Bool (= ((_ extract 24 24) p) #b1))
(define-fun magnitude ((p Product)) (_ BitVec 31)
  (ite (top p) (concat (bvadd (exponent-of p) #x01) ((_ extract 14 0) (significand-of p)) #x00)
               (concat (exponent-of p) ((_ extract 13 0) (significand-of p)) #b000000000)))
(define-fun is-number ((p Product)) Bool
  (ite (top p) (bvult (exponent-of p) #xfe)
               (and (= ((_ extract 14 14) (significand-of p)) #b1)
                    (distinct (exponent-of p) #x00) (distinct (exponent-of p) #xff))))
""",
    "ieee": """\
(define-sort Product () (_ BitVec 31))
(define-fun sign-of ((p Product)) (_ BitVec 1) ((_ extract 0 0) p))
(define-fun exponent-of ((p Product)) (_ BitVec 10) ((_ extract 10 1) p))
(define-fun significand-of ((p Product)) (_ BitVec 17) ((_ extract 27 11) p))
(define-fun has ((p Product) (bit Product)) Bool (distinct (bvand p bit) (_ bv0 31)))
(define-fun is-zero ((p Product)) Bool (has p (_ bv268435456 31)))
(define-fun is-infinite ((p Product)) Bool (has p (_ bv536870912 31)))
(define-fun is-nan ((p Product)) Bool (has p (_ bv1073741824 31)))
(define-fun top ((p Product)) Bool (= ((_ extract 26 26) p) #b1))
(define-fun is-tiny ((p Product)) Bool (bvsle (exponent-of p) (_ bv1 10)))
; How far to the right of its place with exponent 1, with eight bits below those of the significand.
(define-fun right ((p Product)) (_ BitVec 31) ((_ sign_extend 21) (bvsub (_ bv1 10) (exponent-of p))))
(define-fun wide ((p Product)) (_ BitVec 31) (concat #b000000 (significand-of p) #x00))
(define-fun magnitude ((p Product)) (_ BitVec 31)
  (ite (is-tiny p) (bvlshr (wide p) (right p))
  (ite (top p) (concat ((_ extract 7 0) (exponent-of p)) ((_ extract 14 0) (significand-of p)) #x00)
               (concat ((_ extract 7 0) (bvsub (exponent-of p) (_ bv1 10)))
                       ((_ extract 13 0) (significand-of p)) #b000000000))))
(define-fun is-number ((p Product)) Bool
  (ite (is-tiny p)
       (and (bvsge (exponent-of p) (bvneg (_ bv300 10)))
            (= (bvshl (bvlshr (wide p) (right p)) (right p)) (wide p))
            (=> (= ((_ extract 16 16) (significand-of p)) #b1) (bvslt (exponent-of p) (bvneg (_ bv7 10))))
            (or (top p) (= ((_ extract 14 14) (significand-of p)) #b1) (bvslt (exponent-of p) (bvneg (_ bv7 10)))))
       (and (= ((_ extract 16 16) (significand-of p)) #b0)
            (ite (top p) (bvsle (exponent-of p) (_ bv254 10))
                         (and (= ((_ extract 14 14) (significand-of p)) #b1)
                              (bvsle (exponent-of p) (_ bv255 10)))))))
""",
}

_HALVES = """\
(define-fun word ((p Product)) Word
  (ite (is-nan p) #x7fc00000
  (ite (is-infinite p) (concat (sign-of p) #b1111111100000000000000000000000)
  (ite (is-zero p) (concat (sign-of p) #b0000000000000000000000000000000)
                   (concat (sign-of p) (magnitude p))))))
(define-fun is-product ((p Product)) Bool (or (is-nan p) (is-infinite p) (is-zero p) (is-number p)))
(define-fun product ((a Half) (b Half) (o Product)) Bool (and (is-product o) (multiply a b (word o))))
(define-fun add-product ((c Word) (p Product) (o Word)) Bool (add c (word p) o))
"""


def _halves(mode: str) -> str:
    return _NUMBERS + _MULTIPLY[mode] + _ADD[mode] + _PRODUCT[mode] + _HALVES


# A recoded word of bf16 and the number that it stands for; those of subnormal numbers have lower exponents, and zeros
# behind their fractions.
_RECODED = """\
(define-sort Recoded () (_ BitVec 17))
(define-fun exponent-of-recoded ((w Recoded)) (_ BitVec 9) ((_ extract 15 7) w))
(define-fun is-special ((w Recoded)) Bool (= ((_ extract 15 14) w) #b11))
(define-fun is-null ((w Recoded)) Bool (= ((_ extract 15 12) w) #b0000))
(define-fun is-tiny-recoded ((w Recoded)) Bool (bvult (exponent-of-recoded w) #b001000010))
(define-fun denormalised ((w Recoded)) (_ BitVec 8)
  (bvlshr (concat #b1 ((_ extract 6 0) w)) ((_ extract 7 0) (bvsub #b001000010 (exponent-of-recoded w)))))
(define-fun renormalised ((w Recoded)) (_ BitVec 8)
  (bvshl (denormalised w) ((_ extract 7 0) (bvsub #b001000010 (exponent-of-recoded w)))))
(define-fun is-word ((w Recoded)) Bool
  (ite (is-null w) (= ((_ extract 14 0) w) #b000000000000000)
  (ite (is-special w) (or (= ((_ extract 14 0) w) #b100000000000000)
                          (= ((_ extract 15 6) w) #b1100000001))
  (ite (is-tiny-recoded w) (and (= (renormalised w) (concat #b1 ((_ extract 6 0) w)))
                                (distinct (denormalised w) #x00))
                           (bvule (exponent-of-recoded w) #b100111111)))))
(define-fun half ((w Recoded)) Half
  (concat ((_ extract 16 16) w)
    (ite (is-null w) #b000000000000000
    (ite (is-special w) (concat #xff ((_ extract 6 0) w))
    (ite (is-tiny-recoded w) (concat #b0000000 (denormalised w))
         ((_ extract 14 0) (bvsub ((_ extract 15 0) w) #b0010000010000000)))))))
(define-fun product-of-words ((a Recoded) (b Recoded) (o Product)) Bool (product (half a) (half b) o))
"""

PRODUCT = {
    "flush": Operation("product", _halves("flush"), means="word"),
    "ieee": Operation(
        "product-of-words", _halves("ieee") + _RECODED, means="word", given="(and (is-word x0) (is-word x1))"
    ),
}
"""The first half of a multiply-add, by treatment of subnormals: the product of two operands, which are recoded with
gradual underflow; not packed."""

ADD_PRODUCT = {
    mode: Operation(
        "add-product", _halves(mode), given="(and (is-product x1) (=> (fp.isNaN (number x0)) (= x0 #x7fc00000)))"
    )
    for mode in ("flush", "ieee")
}
"""The second half: a sum, whose NaN is the canonical one, and any product that the first half can give."""

CONVERT = {mode: _conversion(_CONVERT, mode) for mode in ("flush", "ieee")}
"""fp32 -> bf16, by treatment of subnormals; a tie goes to the even neighbour."""

NEAREST = {mode: _conversion(_NEAREST, mode) for mode in ("flush", "ieee")}
"""fp32 -> bf16 like :data:`CONVERT`, without a format of bf16's widths, which not every solver supports."""


def _shift(width: int) -> Operation:
    text = f"""\
(define-sort Operand () (_ BitVec {width}))
(define-fun shift ((activation Operand) (swap (_ BitVec 1)) (load (_ BitVec 1)) (weight Operand)
                   (shadow Operand) (active Operand) (o (_ BitVec {4 * width + 2}))) Bool
  (= o (concat activation swap load
               (ite (= load #b1) weight shadow) (ite (= load #b1) weight shadow)
               (ite (= swap #b1) shadow active))))
"""
    result = 0x1111 << 3 * width + 2 | 0b10 << 3 * width | 0x3333 << 2 * width | 0x3333 << width | 0x3333
    return Operation("shift", text, ((0x1111, 1, 0, 0x2222, 0x3333, 0x4444), result))


SHIFT = {"flush": _shift(16), "ieee": _shift(17)}
"""A cycle of a processing element: activation, swap mark, load mark, weight to the next row, shadow weight, active
weight. By treatment of subnormals: with gradual underflow operands are recoded words."""

ACCEPT = Operation(
    "accept",
    """\
(define-fun accept ((valid (_ BitVec 1)) (o (_ BitVec 2))) Bool (= o (concat #b1 valid)))
""",
    ((1,), 0b11),
)
"""A stream moves on: it was ready, and its valid mark comes out."""

REPLACE = Operation(
    "replace",
    _NUMBERS
    + """\
(define-fun replace ((old Word) (add (_ BitVec 1)) (clear_nan (_ BitVec 1)) (o Word)) Bool
  (= o (ite (= add #b0) #x80000000
            (ite (and (= clear_nan #b1) (fp.isNaN (number old))) #x00000000 old))))
""",
    ((0x7FC0_0000, 1, 1), 0),
)
"""The value that a sum is added to in the accumulator bank: the old sum, +0 in place of a NaN that is cleared, or -0
where nothing is added."""

READY = Operation(
    "ready",
    """\
(define-fun ready ((ready (_ BitVec 1)) (valid (_ BitVec 1)) (o (_ BitVec 1))) Bool
  (= o (bvor ready (bvnot valid))))
""",
    ((0, 0), 1),
)
"""A stream moves: its result is taken, or there is none."""

ALWAYS = Operation("always", "(define-fun always ((o (_ BitVec 1))) Bool (= o #b1))\n", ((), 1))
"""A mark that is high."""

NEVER = Operation("never", "(define-fun never ((o (_ BitVec 1))) Bool (= o #b0))\n", ((), 0))
"""A mark that is low."""

SAME = Operation("=", "")
"""The result is the operand itself."""


_STATUS = """\
(define-sort Mark () (_ BitVec 1))
(define-sort Counter () (_ BitVec 32))
(define-sort Left () (_ BitVec {left}))
(define-sort Beats () (_ BitVec {beats}))
(define-sort Mistake () (_ BitVec 3))
(define-fun kept ((clear Mark) (n Counter)) Counter (ite (= clear #b1) (_ bv0 32) n))
(define-fun more ((n Counter) (by Mark)) Counter (bvadd n (concat #b{zeros} by)))
; The mistake that a beat of weights is, with so many left of its tile; and the one that a beat of activations is.
(define-fun of-weights ((taken Mark) (last Mark) (left Left)) Mistake
  (ite (= taken #b0) #b000
  (ite (and (= last #b1) (distinct left {none_left})) #b001
  (ite (and (= last #b0) (= left {none_left})) #b010 #b000))))
(define-fun of-activations
    ((taken Mark) (first Mark) (keep Mark) (inside Mark) (supplied Mark) (count Beats) (same Bool)) Mistake
  (ite (= taken #b0) #b000
  (ite (= first #b1) (ite (= inside #b1) #b011 (ite (and (= keep #b1) (= supplied #b0)) #b111 #b000))
  (ite (= inside #b0) #b100
  (ite (= count {depth}) #b101
  (ite same #b000 #b110))))))
(define-fun status
    ((weights Mark) (weights-ready Mark) (activations Mark) (activations-ready Mark) (results Mark) (results-ready Mark)
     (weights-last Mark) (first Mark) (last Mark) (add Mark) (clear-nan Mark) (emit Mark) (keep Mark)
     (go Mark) (waits-input Mark) (waits-output Mark) (clear Mark)
     (begun Mark) (elapsed Counter) (cycles Counter) (busy Counter) (input-stalls Counter) (output-stalls Counter)
     (left Left) (inside Mark) (count Beats) (marks (_ BitVec 4)) (supplied Mark) (mistake Mistake)
     (o (_ BitVec {width}))) Bool
  (let ((taken-weights (bvand weights weights-ready)) (taken (bvand activations activations-ready))
        (beat (concat keep emit clear-nan add)) (begins (bvor first (bvnot inside))))
  (let ((running (bvor taken-weights taken (bvand begun (bvnot clear))))
        (wrong-weights (of-weights taken-weights weights-last left))
        (wrong (of-activations taken first keep inside supplied count (= beat marks)))
        (before (ite (= clear #b1) #b000 mistake)))
  (let ((now (more (kept clear elapsed) running)))
  (= o (concat
    running now
    (ite (= (bvand results results-ready) #b1) now (kept clear cycles))
    (more (kept clear busy) go)
    (more (kept clear input-stalls) waits-input)
    (more (kept clear output-stalls) waits-output)
    (ite (= taken-weights #b0) left (ite (= left {none_left}) {all_left} (bvsub left (_ bv1 {left}))))
    (ite (= taken #b0) inside (bvnot last))
    (ite (= taken #b0) count (ite (= begins #b1) (_ bv1 {beats})
                             (ite (= count {depth}) count (bvadd count (_ bv1 {beats})))))
    (ite (= (bvand taken begins) #b1) beat marks)
    (bvor supplied (bvand taken first (bvnot keep)))
    (ite (distinct before #b000) before (ite (distinct wrong-weights #b000) wrong-weights wrong))))))))
"""


def status(rows: int, depth: int) -> tuple[Operation, Operation]:
    """A reset of a unit's status, and any other cycle: the next values of all its registers, inner ones included.

    The error is the first mistake: 1 ``last`` too early and 2 missing with weights; 3 ``first`` within a tile, 4 none
    at its beginning, 5 more than ``depth`` beats, 6 other marks than its first beat's, 7 ``keep`` before any tile
    has taken weights. ``clear`` acts before the other events of its cycle.
    """
    left, beats = (rows - 1).bit_length(), depth.bit_length()
    behind = 1 + beats + 4 + 1 + 3  # bits below those that count the weights that are left
    width = 1 + 5 * 32 + left + behind
    text = _STATUS.format(
        left=left,
        beats=beats,
        zeros="0" * 31,
        none_left=f"(_ bv0 {left})",
        all_left=f"(_ bv{rows - 1} {left})",
        depth=f"(_ bv{depth} {beats})",
        width=width,
    )
    cleared = (rows - 1) << behind
    return (
        Operation(
            "cleared",
            f"(define-fun cleared ((o (_ BitVec {width}))) Bool (= o (_ bv{cleared} {width})))\n",
            ((), cleared),
        ),
        Operation("status", text),
    )
