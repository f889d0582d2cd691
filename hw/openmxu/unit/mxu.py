# amaranth: UnusedElaboratable=no
# (a netlist may leave a component out of which a simulator has its own)
"""The matrix unit: weights and activations in, results out, all of them streams.

::

    weights ───────┬─▶ [ edge ] ───▶ [ skew ] ──────────────┐
                   ▼                                        ▼
              [ admission ] ────── loads, swaps ──────▶ [ R x C array ]
                 ▲ ▲ │ o_control                            ▲  │ sums
                 │ │ └─────[ as late as the sums ]─────┐    │  │
    activations ─┼─┴─▶ [ edge ] ───▶ [ skew ] ─────────┼────┘  │
                 │                                     ▼       ▼
                 └───────── freed places ─────── [ accumulator bank ] ───▶ results

Invariant: a beat that admission lets in leaves the array a fixed number of cycles later, whatever the streams do, and
has a place in the bank by then. Only admission and the bank's output ever wait. Admission sees valid bits and marks,
the edges see words: an edge holds the words of the beat that waits at admission, a cycle behind it.
"""

from amaranth.hdl import Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32
from openmxu.spec.marks import MARKS
from openmxu.unit.accumulator import AccumulatorBank, ResultBeat
from openmxu.unit.admission import Admission
from openmxu.unit.array import SystolicArray
from openmxu.unit.edge import ActivationBeat, Edge, WeightBeat
from openmxu.unit.hierarchy import repeat
from openmxu.unit.skew import Skew, delay_marks
from openmxu.unit.status import COUNTERS, Status, status_signature


class Mxu(wiring.Component):
    """The matrix unit: ``results = Σ over tiles of activations x weights``.

    Weight-stationary systolic array with double-buffered weights, converters at the edge and an fp32
    accumulator bank. One beat of a stream is one row; word 0 is in the low bits. Weights of a tile
    come as R beats, row R-1 first; activations as 1 to ``depth`` beats; results leave in the order of the
    activations of tiles marked ``emit``. A tile starts when its weights are complete. Rows without an
    operand are fed with activation +0 and weight -0.

    Latency: ``config.latency`` cycles from an activation beat to its result beat, if nothing waits.
    Throughput: one beat per cycle on each stream; tiles that are added up follow one another without a
    bubble from ``config.shortest_tile`` beats on, if the accumulator bank holds all results or is as deep as
    ``config.latency``. Back-pressure: on all streams, for any time; nothing is lost.

    Reset is synchronous and clears valid bits, marks and pointers, not the memories.

    Parameters
    ----------
    config
        Size, formats, pipeline.
    biased
        Whether sums may start from biases, which come beside the streams, as in an accelerator.

    Members
    -------
    weights : In(stream of WeightBeat)
    activations : In(stream of ActivationBeat)
    results : Out(stream of ResultBeat)
    status : Out(:func:`~openmxu.unit.status.status_signature`)
        Only with ``config.status``.
    i_biases : In(columns · 32)
    i_bias_write : In(1)
        These are biases, a word for each column: see :class:`~openmxu.unit.accumulator.AccumulatorBank`. They must come
        before the weights of their tile. Only with ``biased``.
    """

    module_name = "mxu"
    """Name of the exported module."""

    def __init__(self, config: MxuConfig, *, biased: bool = False) -> None:
        self.config = config
        self.biased = biased
        activations = ActivationBeat(config.source, config.rows, parts=config.splitter, biased=biased)
        super().__init__(
            {
                "weights": In(stream.Signature(WeightBeat(config.source, config.columns, parts=config.splitter))),
                "activations": In(stream.Signature(activations)),
                "results": Out(stream.Signature(ResultBeat(config.result, config.columns))),
            }
            | ({"status": Out(status_signature())} if config.status else {})
            | ({"i_biases": In(config.columns * FP32.width), "i_bias_write": In(1)} if biased else {})
        )

    @property
    def latency(self) -> int:
        """Cycles from an activation beat taken to its result beat offered, if nothing waits."""
        return self.config.latency

    @property
    def shortest_tile(self) -> int:
        """Activation beats from which on tiles that are added up follow one another without a bubble."""
        return self.config.shortest_tile

    def elaborate(self, platform: object) -> Module:
        """Connect admission, array and bank, and the words of both input streams to the array."""
        m = Module()
        config = self.config
        m.submodules.admission = admission = Admission(config, biased=self.biased)
        [array] = repeat(platform, lambda: SystolicArray(config), 1)
        m.submodules.array = array
        m.submodules.bank = bank = AccumulatorBank(config, biased=self.biased)
        wiring.connect(m, bank.o, wiring.flipped(self.results))
        m.d.comb += [
            admission.i_weights.eq(self.weights.valid),
            self.weights.ready.eq(admission.o_weights_ready),
            admission.i_activations.eq(self.activations.valid),
            *(getattr(admission, f"i_{mark}").eq(self.activations.payload[mark]) for mark in MARKS),
            self.activations.ready.eq(admission.o_activations_ready),
            admission.i_freed.eq(bank.o_freed),
            array.i_loads.eq(admission.o_loads),
            array.i_swaps.eq(admission.o_swaps),
            array.i_psums.eq(0),
            bank.i_psums.eq(array.o_psums),
        ]
        skew = self._connect_words(m, admission, array)
        # Control is a cycle ahead of the sums.
        cycles = skew.base + config.array_latency
        m.d.comb += bank.i_control.eq(delay_marks(m, admission.o_control, cycles, name="control"))
        if self.biased:
            m.d.comb += [
                admission.i_bias.eq(self.activations.payload.bias),
                bank.i_biases.eq(self.i_biases),
                bank.i_bias_write.eq(self.i_bias_write),
            ]
        if config.status:
            self._connect_status(m, admission)
        return m

    def _connect_words(self, m: Module, admission: Admission, array: SystolicArray) -> Skew:
        """Connect the words of taken beats to the array; returns the skew of activations."""
        config = self.config
        m.submodules.weight_edge = weight_edge = Edge(config, config.columns, weights=True)
        m.submodules.activation_edge = activation_edge = Edge(config, config.rows)
        m.submodules.weight_skew = weight_skew = Skew(config.weight_width, config.columns)
        activation_skew = Skew(config.word_width * config.terms, config.element_rows, step=config.row_step, base=1)
        m.submodules.activation_skew = activation_skew
        for beat, taken, edge, skew in (
            (self.weights.payload, admission.o_weights_taken, weight_edge, weight_skew),
            (self.activations.payload, admission.o_activations_taken, activation_edge, activation_skew),
        ):
            m.d.comb += [edge.i_words.eq(Value.cast(beat.data)), edge.i_take.eq(taken), skew.i.eq(edge.o_words)]
            if config.splitter:
                m.d.comb += edge.i_part.eq(beat.part)
        m.d.comb += [array.i_weights.eq(weight_skew.o), array.i_activations.eq(activation_skew.o)]
        return activation_skew

    def _connect_status(self, m: Module, admission: Admission) -> None:
        """Connect the status to the unit's streams and to admission."""
        m.submodules.status = status = Status(self.config)
        m.d.comb += [
            *(
                getattr(status, f"i_{name}_{side}").eq(getattr(getattr(self, name), side))
                for name in ("weights", "activations", "results")
                for side in ("valid", "ready")
            ),
            status.i_weights_last.eq(self.weights.payload.last),
            *(getattr(status, f"i_{mark}").eq(self.activations.payload[mark]) for mark in MARKS),
            status.i_go.eq(admission.o_go),
            status.i_waits_input.eq(admission.o_waits_input),
            status.i_waits_output.eq(admission.o_waits_output),
            status.i_clear.eq(self.status.clear),
            *(getattr(self.status, name).eq(getattr(status, f"o_{name}")) for name in (*COUNTERS, "error")),
        ]
