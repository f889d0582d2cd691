"""The edge of the unit: the beats of its streams, and the converters that their words pass."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from openmxu.arith import Converter, Splitter
from openmxu.config import MxuConfig
from openmxu.formats import FloatFormat
from openmxu.hierarchy import repeat
from openmxu.marks import MARKS
from openmxu.passes import Part

__all__ = ["ActivationBeat", "Edge", "WeightBeat"]


class WeightBeat(data.StructLayout):
    """A row of weights, and what it is.

    Members
    -------
    data : columns x width
        A word per column, column 0 lowest.
    last : 1
        With the R-th beat of a tile.
    part : :class:`~openmxu.passes.Part`
        What is multiplied of each word; only with ``parts``. Constant within a tile.
    """

    def __init__(self, fmt: FloatFormat, columns: int, *, parts: bool = False) -> None:
        super().__init__({"data": data.ArrayLayout(fmt.width, columns), "last": 1} | _part(parts))


class ActivationBeat(data.StructLayout):
    """A row of activations: ``data``, a word per array row, row 0 lowest, and what is done with the sums.

    Members
    -------
    data : rows x width
    first : 1
        First beat of a tile: the weights loaded last become active.
    last : 1
        Last beat of a tile.
    add : 1
        Add the sums to those in the accumulator bank; else replace them. Constant within a tile.
    clear_nan : 1
        A NaN in the accumulator bank counts as +0 before it is added to. Constant within a tile.
    emit : 1
        The sums are results: they go to the result stream. Constant within a tile.
    part : :class:`~openmxu.passes.Part`
        What is multiplied of each word; only with ``parts``. Constant within a tile.
    """

    def __init__(self, fmt: FloatFormat, rows: int, *, parts: bool = False) -> None:
        super().__init__({"data": data.ArrayLayout(fmt.width, rows), **dict.fromkeys(MARKS, 1)} | _part(parts))


def _part(there: bool) -> dict[str, type[Part]]:
    return {"part": Part} if there else {}


class Edge(wiring.Component):
    """The edge of the unit: converts a beat's words to the operand format and holds one beat.

    Latency: one cycle. Throughput: one beat per cycle. Back-pressure: ``i.ready`` follows ``o.ready`` combinationally;
    no beat is lost.

    Parameters
    ----------
    config
        The unit; its ``source`` and ``operand`` say what is converted into what.
    beat
        Layout of a beat: :class:`WeightBeat` or :class:`ActivationBeat`.
    lanes
        Words of a beat.

    Members
    -------
    i : In(stream of a beat of source words)
    o : Out(stream of the same of operand words)
    """

    i: Any
    o: Any

    def __init__(self, config: MxuConfig, beat: type[WeightBeat] | type[ActivationBeat], lanes: int) -> None:
        self.config = config
        self.lanes = lanes
        super().__init__(
            {
                "i": In(stream.Signature(beat(config.source, lanes, parts=config.splitter))),
                "o": Out(stream.Signature(beat(config.operand, lanes))),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """A converter per lane and a register."""
        m = Module()
        config = self.config
        converted = Signal.like(self.o.payload, name="converted")
        for name, _ in self.o.payload.shape():
            if name != "data":
                m.d.comb += converted[name].eq(self.i.payload[name])
        if config.source == config.operand:
            m.d.comb += converted.data.eq(self.i.payload.data)
        else:
            converters = repeat(platform, lambda: _converter(config), self.lanes)
            for lane, converter in enumerate(converters):
                if config.splitter:
                    m.d.comb += converter.i_part.eq(self.i.payload.part)
                m.submodules[f"converter_{lane}"] = converter
                m.d.comb += [converter.i.eq(self.i.payload.data[lane]), converted.data[lane].eq(converter.o)]
        held = Signal.like(converted, name="held", reset_less=True)
        m.d.comb += [self.o.payload.eq(held), self.i.ready.eq(self.o.ready | ~self.o.valid)]
        with m.If(self.i.ready):
            m.d.sync += [self.o.valid.eq(self.i.valid), held.eq(converted)]
        return m


def _converter(config: MxuConfig) -> Converter | Splitter:
    """What makes an operand of a word."""
    if config.splitter:
        return Splitter(subnormals=config.subnormals)
    return Converter(config.source, config.operand, subnormals=config.subnormals)
