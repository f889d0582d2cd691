"""Specification of a processing element of several terms, bf16 in and fp32 out, for SMT solvers.

Like :mod:`openmxu_evidence.formal.specification` it is written from the contract. Between its parts there are two
wires: exact products, and the terms in their window, where a term that is subtracted is inverted.
"""

from collections.abc import Mapping, Sequence
from functools import reduce

from openmxu_evidence.formal.specification import Operation

_SORTS = """\
(define-sort Bit () (_ BitVec 1))
(define-sort Half () (_ BitVec 16))
(define-sort Word () (_ BitVec 32))
(define-sort Exponent () (_ BitVec 9))
(define-sort Window () (_ BitVec 28))
(define-fun bit ((x Bool)) Bit (ite x #b1 #b0))
"""

_OPERANDS = """\
(define-fun field ((x Half)) (_ BitVec 8) ((_ extract 14 7) x))
(define-fun is-zero ((x Half)) Bool (= (field x) #x00))
(define-fun is-infinity ((x Half)) Bool (and (= (field x) #xff) (= ((_ extract 6 0) x) #b0000000)))
(define-fun is-nan ((x Half)) Bool (and (= (field x) #xff) (not (is-infinity x))))
(define-fun significand ((x Half)) Half (concat #x00 #b1 ((_ extract 6 0) x)))
(define-fun sign ((a Half) (b Half)) Bit (bvxor ((_ extract 15 15) a) ((_ extract 15 15) b)))
(define-fun either-infinite ((a Half) (b Half)) Bool (or (is-infinity a) (is-infinity b)))
(define-fun undefined ((a Half) (b Half)) Bool
  (or (is-nan a) (is-nan b) (and (is-infinity a) (is-zero b)) (and (is-infinity b) (is-zero a))))
; The exponents' sum, one more than biased twice: the weight of the upper one of a product's two integer bits.
(define-fun exponent ((a Half) (b Half)) Exponent
  (bvadd (concat #b0 (field a)) (concat #b0 (field b)) #b000000001))
"""

_EXPONENTS = """\
(define-fun larger ((x Exponent) (y Exponent)) Exponent (ite (bvuge x y) x y))
; A magnitude, whose top bit has the weight of its exponent, cut off at the window's end.
(define-fun cut ((counts Bool) (magnitude Window) (largest Exponent) (own Exponent)) Window
  (ite counts (bvlshr magnitude (concat #b0000000000000000000 (bvsub largest own))) (_ bv0 28)))
(define-fun exponent-of ((c Word)) Exponent (bvadd (concat #b0 ((_ extract 30 23) c)) #b010000000))
(define-fun counts ((c Word)) Bool (distinct ((_ extract 30 23) c) #x00))
(define-fun is-special ((c Word)) Bool (= ((_ extract 30 23) c) #xff))
(define-fun is-infinite ((c Word)) Bool (and (is-special c) (= ((_ extract 22 0) c) (_ bv0 23))))
"""

# The theory rounds the total, an integer from 1 to 2^36, to a number of fp32. It is the result but for a power of two:
# it is compared with the smallest normal number, and with the first one too large, in that scale.
_ROUNDING = """\
(define-sort Total () (_ BitVec 36))
(define-sort Scale () (_ BitVec 12))
(define-sort Number () (_ FloatingPoint 8 24))
(define-fun signed ((differs Bit) (term Window)) Total
  (ite (= differs #b1) (bvneg (concat #x00 (bvnot term))) (concat #x00 term)))
(define-fun power ((of-two Scale)) Number
  (let ((near (ite (bvslt of-two #x000) #x000 (ite (bvsgt of-two #x064) #x064 of-two))))
    ((_ to_fp 8 24) (concat #b0 ((_ extract 7 0) (bvadd near #x07f)) (_ bv0 23)))))
(define-fun rounds ((total Total) (sign Bit) (largest Exponent) (o Word)) Bool
  (let ((r ((_ to_fp 8 24) RNE (ite (bvslt total (_ bv0 36)) (bvneg total) total)))
        (s (bvxor sign ((_ extract 35 35) total))) (e (concat #b000 largest)) (field ((_ extract 30 23) o)))
    (let ((scaled (bvsub (bvadd (concat #x0 field) (_ bv281 12)) e)))
    (ite (fp.lt r (power (bvsub (_ bv155 12) e))) (= o (concat s (_ bv0 31)))
    (ite (fp.geq r (power (bvsub (_ bv409 12) e))) (= o (concat s #xff (_ bv0 23)))
         (and (= ((_ extract 31 31) o) s) (distinct field #x00) (distinct field #xff)
              (bvsgt scaled #x000) (bvslt scaled #x0ff)
              (= r ((_ to_fp 8 24) (concat #b0 ((_ extract 7 0) scaled) ((_ extract 22 0) o))))))))))
"""


_CANONICAL = "(=> (= ((_ extract 30 23) x0) #xff) (or (= ((_ extract 22 0) x0) (_ bv0 23)) (= x0 #x7fc00000)))"
"""An incoming sum has one NaN."""


def _fields(widths: Mapping[str, int], of: str) -> dict[str, str]:
    """Terms that extract the fields of a structure, the first one lowest."""
    fields, low = {}, 0
    for name, width in widths.items():
        fields[name] = f"((_ extract {low + width - 1} {low}) {of})"
        low += width
    return fields


def _concat(parts: Mapping[str, str]) -> str:
    return f"(concat {' '.join(reversed(list(parts.values())))})"


def _chained(function: str, parts: Sequence[str]) -> str:
    return reduce(lambda left, right: f"({function} {left} {right})", parts)


def _define(name: str, arguments: Mapping[str, int], body: str) -> str:
    """The definition of a relation, of arguments with so many bits."""
    typed = " ".join(f"({argument} (_ BitVec {width}))" for argument, width in arguments.items())
    return f"(define-fun {name} ({typed}) Bool\n{body})\n"


def _meant(width: int, body: str) -> str:
    """The meaning of a result: an exponent that no term has is 0."""
    return f"(define-fun meant ((o (_ BitVec {width}))) (_ BitVec {width}) {body})\n"


def products(terms: int) -> Operation:
    """The exact products of operands, and whether a NaN or infinities of either sign are among them."""
    words = {f"{i}": 16 for i in range(terms)}
    operands = list(zip(_fields(words, "a").values(), _fields(words, "b").values(), strict=True))
    pairs = [f"{x} {y}" for x, y in operands]
    parts: dict[str, str] = {}
    for i, (pair, (x, y)) in enumerate(zip(pairs, operands, strict=True)):
        parts |= {
            f"exponent_{i}": f"(exponent {pair})",
            f"significand_{i}": f"(bvmul (significand {x}) (significand {y}))",
            f"sign_{i}": f"(sign {pair})",
            f"zero_{i}": f"(bit (or (is-zero {x}) (is-zero {y})))",
        }
    infinite = [f"(and (either-infinite {pair}) (= (sign {pair}) #b{{}}))" for pair in pairs]
    parts["nan"] = f"(bit (or {' '.join(f'(undefined {pair})' for pair in pairs)}))"
    parts["plus"] = f"(bit (or {' '.join(condition.format(0) for condition in infinite)}))"
    parts["minus"] = f"(bit (or {' '.join(condition.format(1) for condition in infinite)}))"
    fields = _product_fields(terms)
    low = sum(fields.values()) - fields["largest"] - fields["counts"]  # these two are on top
    exact = f"(= ((_ extract {low - 1} 0) o) {_concat(parts)})"
    text = _define(
        "products",
        {"a": 16 * terms, "b": 16 * terms, "o": sum(fields.values())},
        f"(and {exact} {_known(fields, 'o')})",
    )
    counts = f"(= {_fields(fields, 'o')['counts']} #b1)"
    text += _meant(sum(fields.values()), f"(ite {counts} o (concat (_ bv0 10) ((_ extract {low - 1} 0) o)))")
    return Operation("products", _SORTS + _EXPONENTS + _OPERANDS + text, means="meant")


def _product_fields(terms: int) -> dict[str, int]:
    widths: dict[str, int] = {}
    for i in range(terms):
        widths |= {f"exponent_{i}": 9, f"significand_{i}": 16, f"sign_{i}": 1, f"zero_{i}": 1}
    return widths | {"nan": 1, "plus": 1, "minus": 1, "largest": 9, "counts": 1}


def _largest(fields: Mapping[str, str]) -> str:
    """The largest exponent of products that are not zeros; 0 where all are."""
    zeros = [name for name in fields if name.startswith("zero")]
    own = [f"(ite (= {fields[zero]} #b1) (_ bv0 9) {fields[zero.replace('zero', 'exponent')]})" for zero in zeros]
    return _chained("larger", own)


def _known(widths: Mapping[str, int], of: str) -> str:
    """The largest exponent of products is known, and whether any of them counts; where none does, it is any."""
    p = _fields(widths, of)
    zeros = " ".join(f"(= {p[name]} #b1)" for name in p if name.startswith("zero"))
    counts = f"(= {p['counts']} (bit (not (and {zeros}))))"
    return f"(and {counts} (=> (= {p['counts']} #b1) (= {p['largest']} {_largest(p)})))"


def _window_fields(terms: int) -> dict[str, int]:
    widths = {"exponent": 9, "sign": 1, "infinite": 1, "nan": 1, "addend": 28}
    for i in range(terms):
        widths |= {f"term_{i}": 28, f"differs_{i}": 1}
    return widths


def aligned(terms: int) -> Operation:
    """The incoming sum and any products in the window of the largest exponent; NaN and infinities of both."""
    widths = _product_fields(terms)
    p = _fields(widths, "p")
    largest = f"(larger (ite (counts c) (exponent-of c) (_ bv0 9)) {_largest(p)})"
    c_sign = "((_ extract 31 31) c)"
    plus, minus = (
        f"(or (= {p[name]} #b1) (and (is-infinite c) (= {c_sign} #b{sign})))"
        for name, sign in (("plus", 0), ("minus", 1))
    )
    parts = {
        "sign": f"(ite (or {plus} {minus}) (bit {minus}) {c_sign})",
        "infinite": f"(bit (or {plus} {minus}))",
        "nan": f"(bit (or (= {p['nan']} #b1) (and (is-special c) (not (is-infinite c))) (and {plus} {minus})))",
        "addend": "(cut (counts c) (concat #b01 ((_ extract 22 0) c) #b000) e (exponent-of c))",
    }
    for i in range(terms):
        counts, differs = f"(= {p[f'zero_{i}']} #b0)", f"(bvxor {p[f'sign_{i}']} {c_sign})"
        term = f"(cut {counts} (concat {p[f'significand_{i}']} #x000) e {p[f'exponent_{i}']})"
        parts |= {f"term_{i}": f"(ite (= {differs} #b1) (bvnot {term}) {term})", f"differs_{i}": differs}
    width = sum(_window_fields(terms).values())
    # Where no term counts, the sum is a zero, whatever its exponent.
    exponent = f"(or (= ((_ extract 8 0) o) e) (not (or (counts c) (= {p['counts']} #b1))))"
    body = f"(let ((e {largest})) (and {exponent} (= ((_ extract {width - 1} 9) o) {_concat(parts)})))"
    text = _define("aligned", {"c": 32, "p": sum(widths.values()), "o": width}, body)
    w = _fields(_window_fields(terms), "o")
    zeros = [f"(= {w[f'term_{i}']} ((_ sign_extend 27) {w[f'differs_{i}']}))" for i in range(terms)]
    none = f"(and (= {w['addend']} (_ bv0 28)) {' '.join(zeros)})"
    text += _meant(width, f"(ite {none} (concat ((_ extract {width - 1} 9) o) (_ bv0 9)) o)")
    given = f"(and {_CANONICAL} {_known(widths, 'x1')})"
    return Operation("aligned", _SORTS + _EXPONENTS + text, given=given, means="meant")


def rounded(terms: int) -> Operation:
    """The exact sum of terms in a window, rounded once."""
    widths = _window_fields(terms)
    w = _fields(widths, "w")
    signed = [f"(signed {w[f'differs_{i}']} {w[f'term_{i}']})" for i in range(terms)]
    differ = " ".join(f"(= {w[f'differs_{i}']} #b1)" for i in range(terms))
    body = f"""\
(let ((total {_chained("bvadd", [f"(concat #x00 {w['addend']})", *signed])}))
  (ite (= {w["nan"]} #b1) (= o #x7fc00000)
  (ite (= {w["infinite"]} #b1) (= o (concat {w["sign"]} #xff (_ bv0 23)))
  (ite (= total (_ bv0 36)) (= o (concat (ite (or {differ}) #b0 {w["sign"]}) (_ bv0 31)))
       (rounds total {w["sign"]} {w["exponent"]} o)))))"""
    text = _define("rounded", {"w": sum(widths.values()), "o": 32}, body)
    return Operation("rounded", _SORTS + _ROUNDING + text)


def shift(terms: int) -> Operation:
    """A cycle of registers: a load moves a chain of shadow weights.

    See :data:`~openmxu_evidence.formal.specification.SHIFT`.
    """
    wide = 16 * terms
    arguments = {"activation": wide, "swap": 1, "load": 1, "weight": 16, "shadow": wide, "active": wide}
    body = f"""\
(let ((next (ite (= load #b1) (concat ((_ extract {wide - 17} 0) shadow) weight) shadow)))
  (= o (concat activation swap load ((_ extract {wide - 1} {wide - 16}) next) next
               (ite (= swap #b1) shadow active))))"""
    return Operation("shift", _SORTS + _define("shift", {**arguments, "o": 3 * wide + 18}, body))
