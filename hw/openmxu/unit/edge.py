"""The edge of the unit: the beats of its streams, and the converters that their words pass."""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from openmxu.arith import Converter, Recoder, Splitter
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FloatFormat
from openmxu.spec.marks import MARKS
from openmxu.spec.passes import Part
from openmxu.unit.hierarchy import repeat


class WeightBeat(data.StructLayout):
    """A row of weights with its marks.

    Members
    -------
    data : columns x width
        A word per column, column 0 lowest.
    last : 1
        With the R-th beat of a tile.
    part : :class:`~openmxu.spec.passes.Part`
        The part of each word that is multiplied; only with ``parts``. Constant within a tile.
    """

    def __init__(self, fmt: FloatFormat, columns: int, *, parts: bool = False) -> None:
        super().__init__({"data": data.ArrayLayout(fmt.width, columns), "last": 1} | _part(parts))


class ActivationBeat(data.StructLayout):
    """A row of activations: ``data``, a word per array row, row 0 lowest, and what is done with the sums.

    Members
    -------
    data : rows x width
    first : 1
        First beat of a tile: the weights loaded last become active, unless ``keep`` is set.
    last : 1
        Last beat of a tile.
    add : 1
        Add the sums to those in the accumulator bank; else replace them. Constant within a tile.
    clear_nan : 1
        A NaN in the accumulator bank counts as +0 before it is added to. Constant within a tile.
    emit : 1
        The sums are results: they go to the result stream. Constant within a tile.
    keep : 1
        With ``first``: the active weights stay, and the tile takes none from the weight stream. Constant within a tile.
    part : :class:`~openmxu.spec.passes.Part`
        The part of each word that is multiplied; only with ``parts``. Constant within a tile.
    bias : 1
        Without ``add``: the sums are added to the oldest biases that no tile has used. Only with ``biased``. Constant
        within a tile.
    """

    def __init__(self, fmt: FloatFormat, rows: int, *, parts: bool = False, biased: bool = False) -> None:
        marks = dict.fromkeys((*MARKS, "bias") if biased else MARKS, 1)
        super().__init__({"data": data.ArrayLayout(fmt.width, rows), **marks} | _part(parts))


def _part(there: bool) -> dict[str, type[Part]]:
    return {"part": Part} if there else {}


class Edge(wiring.Component):
    """The edge of the unit: converts words to the operand format, and holds the words of the last accepted beat.

    ::

        words ──▶ converters ──▶ [ ] ──▶ recoders ──▶ [ hold ] ──▶ operands       hold: loaded a cycle after i_take
                                                        ▲
        i_take ─────────────────▶ [ ] ──────────────────┘

    The decision to take a beat comes late in a cycle. So all offered words are converted; a cycle later the decision is
    known, and one register enables all lanes. Recoders are there only with gradual underflow: they normalise subnormal
    numbers, so that no processing element has to; see :mod:`openmxu.spec.recoded`.

    Latency: two cycles. Throughput: one beat per cycle. Back-pressure: none; :class:`~openmxu.unit.admission.Admission`
    takes a beat only if the one before has entered the array.

    Parameters
    ----------
    config
        The unit: words are converted from its ``source`` format to that of activations or weights.
    lanes
        Words of a beat.
    weights
        Whether they are weights.

    Members
    -------
    i_words : In(lanes · source width)
        Lane 0 lowest.
    i_part : In(:class:`~openmxu.spec.passes.Part`)
        The part that is taken of all words; only with ``config.splitter``.
    i_take : In(1)
        The words belong to a beat that is taken in this cycle.
    o_words : Out(lanes · ``config.word_width``, or of weights ``config.weight_width``)
    """

    def __init__(self, config: MxuConfig, lanes: int, *, weights: bool = False) -> None:
        self.config = config
        self.lanes = lanes
        self._fmt = config.weight_format if weights else config.operand
        width = config.weight_width if weights else config.word_width
        super().__init__(
            {"i_words": In(lanes * config.source.width), "i_take": In(1), "o_words": Out(lanes * width)}
            | ({"i_part": In(Part)} if config.splitter else {})
        )

    def elaborate(self, platform: object) -> Module:
        """A converter per lane, or two, and two registers."""
        m = Module()
        config = self.config
        words = [self.i_words.word_select(lane, config.source.width) for lane in range(self.lanes)]
        if config.source != self._fmt:
            converters = repeat(platform, lambda: _converter(config, self._fmt), self.lanes)
            for lane, converter in enumerate(converters):
                m.submodules[f"converter_{lane}"] = converter
                m.d.comb += converter.i.eq(words[lane])
                if config.splitter:
                    m.d.comb += converter.i_part.eq(self.i_part)
                words[lane] = converter.o
        offered = Signal(self.lanes * self._fmt.width, reset_less=True)
        held = Signal.like(self.o_words, reset_less=True)
        taken = Signal()
        m.d.sync += [offered.eq(Cat(words)), taken.eq(self.i_take)]
        with m.If(taken):
            m.d.sync += held.eq(Cat(self._recoded(m, platform, offered)))
        m.d.comb += self.o_words.eq(held)
        return m

    def _recoded(self, m: Module, platform: object, offered: Value) -> list[Value]:
        """The words that the array takes in place of operands."""
        if not self.config.recoded:
            return [offered]
        recoders = repeat(platform, lambda: Recoder(self._fmt), self.lanes)
        for lane, recoder in enumerate(recoders):
            m.submodules[f"recoder_{lane}"] = recoder
            m.d.comb += recoder.i.eq(offered.word_select(lane, self._fmt.width))
        return [recoder.o for recoder in recoders]


def _converter(config: MxuConfig, target: FloatFormat) -> Converter | Splitter:
    """The component that converts a source word to the format of operands."""
    if config.splitter:
        return Splitter(subnormals=config.subnormals)
    return Converter(config.source, target, subnormals=config.subnormals)
