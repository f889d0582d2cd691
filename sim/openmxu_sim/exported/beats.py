"""The beats that an exported bench plays, and their expected results: by the golden model alone."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FloatFormat
from openmxu.spec.marks import MARKS, TILE_MARKS
from openmxu.spec.passes import Part
from openmxu_sim import golden
from openmxu_sim.cosim.words import pack
from openmxu_sim.operands import vectors
from openmxu_sim.operands.aliases import Words
from openmxu_sim.operands.reference import accumulate, operands_of, product_sums, results_of, tile_sums, whole_tile
from openmxu_sim.operands.stimulus import stimulus

_TILES = 24
"""Least number of tiles with any marks."""

_ROWS = 100
"""Least number of their rows of activations."""

_KINDS = ("all", "operands", "ties", "normal", "meeting", "meeting")
"""Kinds of words: those of :func:`~openmxu_sim.operands.vectors.matrix`, single operands, ties where words are rounded,
and activations that :func:`meet <openmxu_sim.operands.vectors.meeting>` the weights."""

_TERMS = 4000
_MOST_ROWS = 1000
"""Least number of products of all these tiles, or of their rows, if that is less: small units have more beats."""

_LONGEST = 24
"""Most rows of one of them."""

_SHALLOW = 32
"""Most places of an accumulator bank for which there is a product of more rows."""


@dataclass
class Beats:
    """Beats of the three streams of a unit, each an integer: fields as in the payloads, the first one lowest."""

    config: MxuConfig
    weights: list[int] = field(default_factory=list)
    activations: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)

    @property
    def widths(self) -> tuple[int, int, int]:
        """Bits of a beat of weights, activations and results."""
        config = self.config
        part = Part.LOW.bit_length() * config.splitter
        return (
            config.columns * config.source.width + 1 + part,
            config.rows * config.source.width + len(MARKS) + part,
            config.columns * config.result.width + 1,
        )

    def expect(self, sums: Words) -> None:
        """Add the results of a tile that has these sums."""
        config = self.config
        beats = pack(results_of(config, sums), config.result.width)
        self.results += [*beats[:-1], beats[-1] | 1 << config.columns * config.result.width]


def make_beats(config: MxuConfig, seed: int = 1, share: int = 1) -> Beats:
    """Make whole products, ragged at all sides, and tiles with any marks; their words are bit patterns of all sorts.

    Unit, seed and ``share`` determine the beats; ``share`` multiplies the number of terms that meet. A product of three
    passes is among them where words are converted from fp32 into bf16, one of six where the unit splits them, and one
    of more rows than the accumulator bank has where it has at most 32.
    """
    generator = np.random.default_rng(seed)
    beats = Beats(config)
    _add_product(beats, generator, 5, "default")
    _Tiles(beats, generator).add_all(share)
    if config.has_passes:
        _add_product(beats, generator, 3, "high")
    if config.splitter:
        _add_product(beats, generator, 2, "highest")
    if config.depth <= _SHALLOW:
        _add_product(beats, generator, config.depth + 3, "default")
    return beats


def _draw(generator: np.random.Generator) -> int:
    return int(generator.integers(1 << 30))


def _add_product(beats: Beats, generator: np.random.Generator, m: int, precision: str) -> None:
    """Add all tiles of a product of ``m`` rows: two whole tiles and a ragged one deep, one and a ragged one wide."""
    config = beats.config
    fmt, k, n = config.source.name, 2 * config.rows + (config.rows + 1) // 2, config.columns + (config.columns + 1) // 2
    a = vectors.matrix((m, k), fmt, _draw(generator))
    b = np.ascontiguousarray(vectors.matrix((n, k), fmt, _draw(generator)).T)
    inputs = stimulus(config, a, b, precision)
    beats.weights += inputs.weight_payloads()
    beats.activations += inputs.activation_payloads()
    sums = product_sums(config, a, b, precision)
    for tile in inputs.tiles:
        if tile.emit:
            rows, start = tile.activations, tile.columns.start
            beats.expect(sums[rows.start : rows.stop, start : start + config.columns])


class _Tiles:
    """Tiles with any marks, and the contents of the accumulator bank."""

    def __init__(self, beats: Beats, generator: np.random.Generator) -> None:
        self._beats = beats
        self._config = beats.config
        self._generator = generator
        self._weights: tuple[Words, Part] | None = None
        self._activations: tuple[Words, Part] | None = None
        self._bank = np.empty((0, self._config.columns), dtype=np.uint32)

    def add_all(self, share: int) -> None:
        """Add a NaN that is cleared, and one that is not; all kinds of words; then any tiles, the last one emitted."""
        replace = dict.fromkeys(TILE_MARKS, False)
        for clear_nan in (True, False):
            self._add(replace, "nan")
            self._add(replace | {"add": True, "clear_nan": clear_nan, "emit": True}, "normal")
        for kind in _KINDS:
            self._add(replace | {"emit": True}, kind)
        if self._config.terms > 1 and self._config.source.has_infinity:
            self._add_infinities(replace | {"emit": True})
        tiles, rows = _TILES, _ROWS
        while tiles > 0 or rows > 0:
            draw = self._generator.random
            marks = {
                "add": bool(len(self._bank) and draw() < 0.7),
                "clear_nan": bool(draw() < 0.3),
                "emit": bool(draw() < 0.4) or tiles <= 1,
                "keep": bool(draw() < 0.3),
            }
            kind = str(self._generator.choice(_KINDS))
            tiles, rows = tiles - 1, rows - self._add(marks, kind)
        self._add_meetings(share * min(_MOST_ROWS, _TERMS // (self._config.rows * self._config.columns)) - _ROWS)

    def _add_infinities(self, marks: dict[str, bool]) -> None:
        """Add sums with one infinite term: each of an element's, of both signs, by either operand."""
        config = self._config
        terms, most = config.terms, min(config.depth, _LONGEST)
        self._load(self._words((config.columns, config.rows), "normal", config.weight_format), Part.WHOLE)
        rows = self._alone(np.arange(2 * terms) // 2)
        for start in range(0, len(rows), most):
            self._play(rows[start : start + most], Part.WHOLE, marks | {"keep": start > 0})
        for start in range(0, terms, config.columns):
            self._load(self._alone(start + np.arange(config.columns)), Part.WHOLE)
            one = self._words((1, config.rows), "normal", config.operand)
            self._play(np.concatenate([one, one ^ np.uint32(1 << config.source.width - 1)]), Part.WHOLE, marks)

    def _alone(self, terms: npt.NDArray[np.int64]) -> Words:
        """Return a row of finite words for each term, and that one infinite, with signs in turn."""
        source, count = self._config.source, len(terms)
        words = self._words((count, self._config.rows), "normal", self._config.operand)
        infinity = (1 << source.exponent_width) - 1 << source.fraction_width
        words[np.arange(count), terms % self._config.terms] = infinity | np.arange(count) % 2 << source.width - 1
        return words

    def _add_meetings(self, rows: int) -> None:
        """Add about so many rows of activations: terms that meet within a sum, and sums that meet in the bank."""
        replace = dict.fromkeys(TILE_MARKS, False)
        while rows > 0:
            emit, keep, clear_nan = (self._generator.random(3) < (0.4, 0.5, 0.5)).tolist()
            rows -= self._add(replace | {"emit": emit, "keep": keep}, "meeting")
            if not emit:
                rows -= self._add(replace | {"add": True, "clear_nan": clear_nan, "emit": True, "keep": True}, "again")

    def _add(self, marks: dict[str, bool], kind: str) -> int:
        """Add a tile of words of a kind; returns its number of rows of activations."""
        most = len(self._bank) if marks["add"] else min(self._config.depth, _LONGEST)
        m = int(self._generator.integers(1, most + 1))
        if self._weights is None or not marks["keep"]:
            part, ragged = self._part(), self._generator.random() < 0.3
            k = int(self._generator.integers(1, self._config.rows + 1)) if ragged else self._config.rows
            self._load(self._words((self._config.columns, k), kind, self._config.weight_format), part)
        return self._play(*self._draw_activations(m, kind), marks)

    def _play(self, activations: Words, part: Part, marks: dict[str, bool]) -> int:
        """Send a tile's activations, expect its results, and return the number of its rows."""
        assert self._weights is not None
        weights, weight_part = self._weights
        m, self._activations = len(activations), (activations, part)
        self._send_activations(activations, part, marks)
        sums = tile_sums(
            self._config,
            operands_of(self._config, activations, self._config.operand, part),
            operands_of(self._config, weights, self._config.weight_format, weight_part),
            np.zeros((m, self._config.columns), dtype=np.uint32),
        )
        if marks["add"]:
            mode = self._config.subnormals
            sums = accumulate(self._bank[:m], sums, clear_nan=marks["clear_nan"], subnormals=mode)
        self._bank = np.concatenate([sums, self._bank[m:]])
        if marks["emit"]:
            self._beats.expect(sums)
            self._bank = self._bank[:0]  # it is a ring: the next tile begins behind the results
        return m

    def _draw_activations(self, m: int, kind: str) -> tuple[Words, Part]:
        """Draw a tile's activations, ``m`` at most, and their part."""
        assert self._weights is not None
        source, operand = self._config.source.name, self._config.operand.name
        if kind == "again" and self._activations is not None:
            before, part = self._activations
            return self._changed(before[:m]), part
        if kind == "meeting":
            weights, weight_part = self._weights
            weights = operands_of(self._config, weights, self._config.operand, weight_part)
            met = vectors.meeting(operand, weights, m, _draw(self._generator))
            return golden.convert(met, operand, source, subnormals="ieee"), Part.WHOLE
        return self._words((m, len(self._weights[0])), kind, self._config.operand), self._part()

    def _changed(self, words: Words) -> Words:
        """Return rows whose terms cancel those of ``words``, double them or are smaller, except for some bits."""
        source, operand, draw = self._config.source, self._config.operand, self._generator
        rows, low = (len(words), 1), np.uint32(source.fraction_width - operand.fraction_width)
        sign = draw.integers(2, size=rows).astype(np.uint32) << np.uint32(source.width - 1)
        one = 1 << draw.integers(operand.fraction_width, size=rows)
        any_bits = draw.integers(1 << operand.fraction_width, size=words.shape)
        bits = np.choose(draw.integers(3, size=rows), [0, one, any_bits]).astype(np.uint32) << low
        places = np.rint(27 * draw.random(rows) ** 2 * draw.integers(2, size=rows)).astype(np.uint32)
        exponents = words >> np.uint32(source.fraction_width) & np.uint32((1 << source.exponent_width) - 1)
        right = np.where(exponents > places, places, 0).astype(np.uint32) << np.uint32(source.fraction_width)
        return (words - right) ^ sign ^ bits

    def _words(self, shape: tuple[int, int], kind: str, fmt: FloatFormat) -> Words:
        """Return words of a kind, which the edge converts into a format."""
        source, seed = self._config.source, _draw(self._generator)
        if kind == "nan":  # all ones, in every format
            return np.full(shape, (1 << source.width) - 1, dtype=np.uint32)
        if kind == "operands":
            words = vectors.operands(source.name, shape[0] * shape[1], seed).reshape(shape)
            words[0, 0] = (1 << source.exponent_width) - 1 << source.fraction_width  # infinity is rare among them
            return words
        words = vectors.matrix(shape, source.name, seed, kind={"ties": "normal", "meeting": "all"}.get(kind, kind))
        return self._tied(words, fmt) if kind == "ties" else words

    def _tied(self, words: Words, fmt: FloatFormat) -> Words:
        """Return the words with ends such that rounding to a format is a tie, or just not."""
        dropped = self._config.source.fraction_width - fmt.fraction_width
        if dropped < 2:
            return words
        half = 1 << dropped - 1
        ends = self._generator.choice([half, half, half - 1, half + 1], words.shape).astype(np.uint32)
        return words >> np.uint32(dropped) << np.uint32(dropped) | ends

    def _part(self) -> Part:
        return Part(int(self._generator.integers(len(Part) if self._config.splitter else 1)))

    def _load(self, columns: Words, part: Part) -> None:
        """Send a tile's weights, column by column, of which some are missing at times."""
        config, weights = self._config, np.ascontiguousarray(columns.T)
        self._weights, self._activations = (weights, part), None
        above = [(row + 1 == config.rows) | part << 1 for row in range(config.rows)]
        self._beats.weights += _join(whole_tile(config, weights)[::-1], config.source.width, above)

    def _send_activations(self, activations: Words, part: Part, marks: dict[str, bool]) -> None:
        """Send a tile's activations, of which a part is multiplied."""
        config, m = self._config, len(activations)
        rows = np.zeros((m, config.rows), dtype=np.uint32)
        rows[:, : activations.shape[1]] = activations
        constant = sum(marks[mark] << MARKS.index(mark) for mark in TILE_MARKS) | part << len(MARKS)
        ends = ((row == 0) << MARKS.index("first") | (row == m - 1) << MARKS.index("last") for row in range(m))
        self._beats.activations += _join(rows, config.source.width, [bits | constant for bits in ends])


def _join(words: npt.NDArray[np.uint32], width: int, above: list[int]) -> list[int]:
    """Return beats of words and the bits above them."""
    return [beat | bits << words.shape[1] * width for beat, bits in zip(pack(words, width), above, strict=True)]
