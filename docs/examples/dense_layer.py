"""A dense layer of a neural network around the matrix unit: activations in, ``relu(activations x weights)`` out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FloatFormat
from openmxu.unit.mxu import Mxu
from openmxu.unit.status import Error


class RowBeat(data.StructLayout):
    """A row of numbers: ``data``, word 0 lowest; ``last`` of a packet."""

    def __init__(self, fmt: FloatFormat, words: int) -> None:
        super().__init__({"data": data.ArrayLayout(fmt.width, words), "last": 1})


class DenseLayer(wiring.Component):
    """A layer with fixed weights: ``o[n] = relu(Σ i[k] · weights[k][n])``.

    Sums are those of :class:`~openmxu.unit.mxu.Mxu`. ``relu`` gives +0 for negative numbers, negative infinity and -0;
    NaN stays NaN.

    Latency: :attr:`latency` cycles from a row to its result, if nothing waits. Throughput: one row per cycle, if
    ``config.depth`` is at least ``config.latency``.
    Back-pressure: on both streams, for any time; nothing is lost.

    Parameters
    ----------
    config
        The unit inside, which gets ``status``.
    weights
        K rows of N bit patterns in ``config.source``, with K up to ``config.rows`` and N up to ``config.columns``.

    Members
    -------
    i : In(stream of RowBeat)
        K words of ``config.source``; packets of 1 to ``config.depth`` rows.
    o : Out(stream of RowBeat)
        N words of ``config.result``; a row for each of ``i``, with its ``last``.
    o_error : Out(3)
        The unit's first :class:`~openmxu.unit.status.Error` since reset; ``TILE_LONG`` if a packet is too long.

    Raises
    ------
    ValueError
        There are more weights than places in the unit, none, or rows of different lengths.
    """

    def __init__(self, config: MxuConfig, weights: Sequence[Sequence[int]]) -> None:
        lengths = {len(row) for row in weights}
        if not 1 <= len(weights) <= config.rows or len(lengths) != 1 or not 1 <= max(lengths) <= config.columns:
            raise ValueError(
                f"weights must be 1 to {config.rows} rows of 1 to {config.columns} words each, not {weights!r}"
            )
        self.config = replace(config, status=True)
        self._weights = weights
        super().__init__(
            {
                "i": In(stream.Signature(RowBeat(config.source, len(weights)))),
                "o": Out(stream.Signature(RowBeat(config.result, max(lengths)))),
                "o_error": Out(Error),
            }
        )

    @property
    def latency(self) -> int:
        """Cycles from a row taken to its result offered, if nothing waits: all of them are the unit's."""
        return self.config.latency

    def elaborate(self, platform: object) -> Module:
        """The unit, the memory that loads it, and the logic on both sides."""
        m = Module()
        m.submodules.unit = unit = Mxu(self.config)
        self._send_weights(m, unit)
        self._send_activations(m, unit)
        m.d.comb += [
            self.o.valid.eq(unit.results.valid),
            unit.results.ready.eq(self.o.ready),
            self.o.payload.last.eq(unit.results.payload.last),
            self.o_error.eq(unit.status.error),
        ]
        for result, word in zip(self.o.payload.data, unit.results.payload.data, strict=False):  # surplus columns
            m.d.comb += result.eq(Mux(word[-1], 0, word))  # the unit's NaNs have no sign
        return m

    def _send_weights(self, m: Module, unit: Mxu) -> None:
        """Offer the weights once: all packets but the first keep them."""
        beat = unit.weights.payload
        m.submodules.rom = rom = Memory(shape=beat.shape(), depth=self.config.rows, init=self._rom())
        port = rom.read_port()
        address = Signal(range(self.config.rows + 1))
        m.d.comb += [port.addr.eq(address), port.en.eq(unit.weights.ready | ~unit.weights.valid), beat.eq(port.data)]
        missing = address != self.config.rows
        with m.If(port.en):
            m.d.sync += [unit.weights.valid.eq(missing), address.eq(address + missing)]

    def _rom(self) -> list[dict[str, Any]]:
        """A tile's weights, in the order in which they are sent: row R-1 first."""
        config = self.config
        negative_zero = 1 << (config.source.width - 1)  # changes no sum, as what it is multiplied with is +0
        rows = [[negative_zero] * config.columns for _ in range(config.rows)]
        for row, weights in zip(rows, self._weights, strict=False):
            row[: len(weights)] = map(int, weights)
        return [{"data": row, "last": number == 0} for number, row in reversed(list(enumerate(rows)))]

    def _send_activations(self, m: Module, unit: Mxu) -> None:
        """A packet is a tile. Words without a weight are not driven, which makes them +0."""
        beat = unit.activations.payload
        first, keep = Signal(init=1), Signal()
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [first.eq(self.i.payload.last), keep.eq(keep | self.i.payload.last)]
        m.d.comb += [
            unit.activations.valid.eq(self.i.valid),
            self.i.ready.eq(unit.activations.ready),
            *(word.eq(given) for word, given in zip(beat.data, self.i.payload.data, strict=False)),
            beat.first.eq(first),
            beat.last.eq(self.i.payload.last),
            beat.emit.eq(1),
            beat.keep.eq(keep),
        ]
