"""Expected results of an array and an accumulator bank, in operations of the golden model."""

from collections import deque
from collections.abc import Iterable, Mapping

import numpy as np

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FloatFormat
from openmxu.spec.marks import TILE_MARKS
from openmxu.spec.passes import Part
from openmxu.spec.recoded import Recoded
from openmxu.unit.pe import ProcessingElement
from openmxu.unit.status import Error
from openmxu_sim import golden
from openmxu_sim.golden.formats import decode
from openmxu_sim.golden.passes import split
from openmxu_sim.operands.aliases import Words

Marks = Mapping[str, bool]


def element_sums(psums: Words, a: Words, b: Words, *, operand: str, subnormals: str, weight: str = "") -> Words:
    """Return the sums of processing elements whose terms are along the last axis of ``a`` and ``b``."""
    if a.shape[-1] > 1:
        return golden.dot_product_add(psums, a, b, operand, weight=weight or operand)
    products = golden.multiply(a[..., 0], b[..., 0], operand, "fp32", weight=weight or operand, subnormals=subnormals)
    return golden.add(psums, products, "fp32", subnormals=subnormals)


def element_words(element: MxuConfig | ProcessingElement, operands: Words) -> Words:
    """Return operands as processing elements take them: recoded with gradual underflow."""
    return recode(operands, element.operand) if element.recoded else operands


def recode(words: Words, operand: FloatFormat) -> Words:
    """Return the recoded words of operands, from the numbers that they are."""
    recoded, fmt = Recoded(operand), golden.find_format(str(operand))
    values = decode(words, fmt)
    significand, exponent = np.frexp(np.where(np.isfinite(values), np.abs(values), 0.0))
    field = np.where(significand, exponent - 1 + operand.bias + recoded.offset, 0)
    fraction = np.where(significand, np.ldexp(2 * significand - 1, operand.fraction_width), 0)
    special = np.isinf(values) | np.isnan(values)
    field = np.where(special, 3 << (recoded.exponent_width - 2), field)
    quiet = (words | 1 << (operand.fraction_width - 1)) & fmt.fraction_mask
    fraction = np.where(np.isnan(values), quiet, fraction)
    fields = (words >> (operand.width - 1), field, fraction)
    places = (recoded.width - 1, operand.fraction_width, 0)
    parts = [piece.astype(np.uint32) << np.uint32(shift) for piece, shift in zip(fields, places, strict=True)]
    return parts[0] | parts[1] | parts[2]


def operands_of(config: MxuConfig, words: Words, fmt: FloatFormat, part: int = Part.WHOLE) -> Words:
    """Return words as the unit's edge converts them."""
    if part != Part.WHOLE:
        return split(words, "xhrml"[part], subnormals=config.subnormals)
    if config.source == fmt:
        return words
    return golden.convert(words, config.source.name, fmt.name, subnormals=config.subnormals)


def results_of(config: MxuConfig, sums: Words) -> Words:
    """Return sums as words on the stream of results."""
    return golden.convert(sums, "fp32", config.result.name, subnormals=config.subnormals)


def whole_tile(config: MxuConfig, weights: Words) -> Words:
    """Return weights for all rows: missing ones multiply +0 with -0, which changes no sum."""
    block = np.full((config.rows, config.columns), 1 << (config.source.width - 1), dtype=np.uint32)
    block[: len(weights)] = weights
    return block


def product_sums(config: MxuConfig, a: Words, b: Words, precision: str) -> Words:
    """Return the sums of a product, also those of surplus columns, which multiply with -0."""
    fmt = config.source.name
    surplus = np.full((len(b), -b.shape[1] % config.columns), 1 << (config.source.width - 1), dtype=np.uint32)
    product = golden.matmul(
        golden.from_bits(a, fmt),
        golden.from_bits(np.concatenate([b, surplus], axis=1), fmt),
        rows=config.rows,
        precision=precision,
        subnormals=config.subnormals,
        operand=config.operand.name,
        weight=config.weight_format.name,
        terms=config.terms,
    )
    return golden.to_bits(product)


def tile_sums(config: MxuConfig, activations: Words, weights: Words, psums: Words) -> Words:
    """Return the sums at the foot of the columns of a unit; rows may be missing."""
    missing = -len(weights) % config.terms
    zeros = np.full((missing, weights.shape[1]), 1 << (config.weight_format.width - 1), dtype=np.uint32)
    activations, weights = np.pad(activations, ((0, 0), (0, missing))), np.concatenate([weights, zeros])
    for k in range(0, len(weights), config.terms):
        block = slice(k, k + config.terms)
        psums = element_sums(
            psums,
            activations[:, np.newaxis, block],
            weights[block].T,
            operand=config.operand.name,
            subnormals=config.subnormals,
            weight=config.weight_format.name,
        )
    return psums


def accumulate(old: Words, sums: Words, *, clear_nan: bool, subnormals: str) -> Words:
    """Return ``sums`` added to the contents of the accumulator bank, where a NaN may count as +0."""
    if clear_nan:
        old = np.where((old & 0x7FFF_FFFF) > 0x7F80_0000, np.uint32(0), old)
    return golden.add(old, sums, "fp32", subnormals=subnormals)


class AnyBeats:
    """Results of a unit's beats with marks in any order: those that the reference of streams promises.

    The n-th ``first`` without ``keep`` takes the n-th R beats of weights. A beat that is emitted uses place 0 of the
    sums that are being built and moves them on by one; any other beat uses place 0 if it begins a tile, place 1 after a
    beat that was emitted, else the place after that of the beat before.
    """

    def __init__(self, config: MxuConfig) -> None:
        self._config = config
        self._loaded: deque[Words] = deque()
        self._active: Words | None = None
        self._sums: deque[Words | None] = deque([None] * config.depth)
        self._row = 0

    def load(self, block: Words) -> None:
        """Add a tile's weights, in the format of the stream, row 0 first."""
        self._loaded.append(operands_of(self._config, block, self._config.weight_format))

    @property
    def may_keep(self) -> bool:
        """Whether there are active weights."""
        return self._active is not None

    def may_add(self, marks: Marks, *, ahead: int = 0) -> bool:
        """Whether the sum is defined to which a beat with these marks would be added, after ``ahead`` further beats."""
        return self._sums[(self._place(marks) + ahead) % self._config.depth] is not None

    def feed(self, activations: Words, marks: Marks) -> Words:
        """Return the result of a beat, as on the stream of results; ``first`` must find weights, and ``add`` a sum."""
        if marks["first"] and not marks["keep"]:
            self._active = self._loaded.popleft()
        assert self._active is not None, "no weights have been active yet"
        index = self._place(marks)
        psums = np.zeros((1, self._config.columns), dtype=np.uint32)
        words = operands_of(self._config, activations[np.newaxis], self._config.operand)
        [sums] = tile_sums(self._config, words, self._active, psums)
        if marks["add"]:
            old = self._sums[index]
            assert old is not None, "the sum to add to is not defined"
            sums = accumulate(old, sums, clear_nan=marks["clear_nan"], subnormals=self._config.subnormals)
        self._sums[index] = sums
        if marks["emit"]:
            self._sums.append(None)
            self._sums.popleft()
        self._row = 0 if marks["last"] else index + 1
        return results_of(self._config, sums)

    def _place(self, marks: Marks) -> int:
        return 0 if marks["first"] or marks["emit"] else self._row % self._config.depth


def first_mistake(beats: Iterable[Marks], depth: int) -> Error:
    """Return the first mistake in beats of activations."""
    tile: list[Marks] = []
    supplied = False
    for beat in beats:
        if tile and beat["first"]:
            return Error.TILE_CUT
        if not tile and not beat["first"]:
            return Error.TILE_UNBEGUN
        if not tile:
            if beat["keep"] and not supplied:
                return Error.WEIGHTS_NONE
            supplied |= not beat["keep"]
        if len(tile) == depth:
            return Error.TILE_LONG
        if any(beat[mark] != tile[0][mark] for mark in TILE_MARKS if tile):
            return Error.MARKS_CHANGED
        tile = [] if beat["last"] else [*tile, beat]
    return Error.NONE
