"""The matrix unit: weights and activations in, results out, all of them streams."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from openmxu.accumulator import AccumulatorBank, Control, ResultBeat
from openmxu.arith import Converter, Splitter
from openmxu.array import SystolicArray
from openmxu.config import MxuConfig
from openmxu.formats import FloatFormat
from openmxu.hierarchy import repeat
from openmxu.passes import Part
from openmxu.skew import Skew, delay_marks
from openmxu.status import COUNTERS, Status, status_signature

__all__ = ["ActivationBeat", "Admission", "Edge", "Mxu", "WeightBeat"]


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
        super().__init__({
            "data": data.ArrayLayout(fmt.width, rows),
            "first": 1, "last": 1, "add": 1, "clear_nan": 1, "emit": 1,
        } | _part(parts))


def _part(there: bool) -> dict[str, type[Part]]:
    return {"part": Part} if there else {}


class Edge(wiring.Component):
    """The edge of the unit: converts a beat's words to the operand format and holds one beat.

    Latency: one cycle. Throughput: one beat per cycle. Back-pressure: none is lost; ``i.ready`` follows
    ``o.ready`` within the cycle.

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
        super().__init__({
            "i": In(stream.Signature(beat(config.source, lanes, parts=config.splitter))),
            "o": Out(stream.Signature(beat(config.operand, lanes))),
        })

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
                m.d.comb += [
                    converter.i.eq(self.i.payload.data[lane]),
                    converted.data[lane].eq(converter.o),
                ]
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


class Admission(wiring.Component):
    """Decides when the next beat of weights and of activations enters the array, which cannot stall.

    A row of shadow registers is loaded anew only when the swap mark has passed it; a tile starts only when
    all its weights are loaded; a sum is given only to a place in the accumulator bank that holds no result
    that waits for the receiver, and added only to one that is written by then.

    Parameters
    ----------
    config
        The unit.

    Members
    -------
    i_weights : In(1)
        A beat of weights is there.
    o_shift : Out(1)
        It enters the array in this cycle.
    o_loads : Out(rows)
        Load marks for the array.
    i_activations : In(1)
        A beat of activations is there.
    i_first, i_last, i_add, i_clear_nan, i_emit : In(1)
        Its marks.
    o_go : Out(1)
        It leaves the edge in this cycle and enters the array in the next.
    o_swaps : Out(rows)
        Swap marks for the array, skewed.
    o_control : Out(Control)
        With ``o_go``: what the accumulator bank will do with its sums.
    i_freed : In(1)
        The bank has read a result for the last time.
    o_waits_input : Out(1)
        No beat of activations enters the array, as one, or a beat of weights, does not come in the midst of work.
        Only with ``config.status``.
    o_waits_output : Out(1)
        None does, as there is no place in the accumulator bank. Likewise.
    """

    i_weights: Value
    o_shift: Value
    o_loads: Value
    i_activations: Value
    i_first: Value
    i_last: Value
    i_add: Value
    i_clear_nan: Value
    i_emit: Value
    o_go: Value
    o_swaps: Value
    o_control: Any
    i_freed: Value
    o_waits_input: Value
    o_waits_output: Value

    def __init__(self, config: MxuConfig) -> None:
        self.config = config
        super().__init__({
            "i_weights": In(1), "o_shift": Out(1), "o_loads": Out(config.rows),
            "i_activations": In(1),
            "i_first": In(1), "i_last": In(1), "i_add": In(1), "i_clear_nan": In(1), "i_emit": In(1),
            "o_go": Out(1),
            "o_swaps": Out(config.rows),
            "o_control": Out(Control(config.depth)),
            "i_freed": In(1),
        } | ({"o_waits_input": Out(1), "o_waits_output": Out(1)} if config.status else {}))

    def elaborate(self, platform: object) -> Module:
        """Weights, places in the bank, and the beat that needs both."""
        m = Module()
        loaded, loading = self._load_weights(m)
        room, written = self._find_place(m)
        m.d.comb += self.o_go.eq(self.i_activations & (room & written) & (loaded | ~self.i_first))
        if self.config.status:
            inside = Signal()
            with m.If(self.o_go):
                m.d.sync += inside.eq(~self.i_last)
            missing = Mux(self.i_activations, self.i_first & ~loaded & ~self.i_weights, 1)
            m.d.comb += [
                self.o_waits_input.eq((inside | loading) & missing),
                self.o_waits_output.eq(self.i_activations & (loaded | ~self.i_first) & ~room),
            ]
        return m

    def _load_weights(self, m: Module) -> tuple[Value, Value]:
        """Shift weights in as rows of shadow registers come free; say when a tile's are complete, and when begun."""
        rows, step = self.config.rows, self.config.row_step
        # The swap mark enters row 0 with the first activation, one cycle after its beat leaves the edge,
        # and each further row when that row's activation does.
        swaps = Signal((rows - 1) * step + 1)
        entering = self.o_go & self.i_first
        m.d.sync += swaps.eq(Cat(entering, swaps))
        m.d.comb += self.o_swaps.eq(Cat(swaps[row * step] for row in range(rows)))

        # Weights shift down as a chain, row R-1's first, so that the n-th beat moves rows 0 to n: each row
        # that the swap mark reaches allows one more beat, in the same cycle.
        reached = Signal()
        m.d.sync += reached.eq(entering | Cat(swaps[row * step - 1] for row in range(1, rows)).any())
        allowed = Signal(range(rows + 1), init=rows)
        moving = Signal(rows, init=1)
        m.d.comb += [
            self.o_shift.eq(self.i_weights & (reached | (allowed != 0))),
            self.o_loads.eq(moving & self.o_shift.replicate(rows)),
        ]
        m.d.sync += allowed.eq(allowed + reached - self.o_shift)
        complete = self.o_loads[-1]
        with m.If(complete):
            m.d.sync += moving.eq(1)
        with m.Elif(self.o_shift):
            m.d.sync += moving.eq(Cat(Const(1, 1), moving))

        loaded = Signal()
        m.d.sync += loaded.eq((loaded | complete) & ~entering)
        return loaded | complete, loaded | moving[1:].any()

    def _find_place(self, m: Module) -> tuple[Value, Value]:
        """The beat's place in the bank; say whether it is free, and whether a sum that is there is written by now.

        The bank is a ring. A beat that is emitted goes to ``head`` and moves it on by one, any other goes ``ahead``::

            |<----- held ------>|<------ ahead ------>|
            | waiting results   | sums being built    | this beat ...
                                ^ head

        So the ``held`` places before ``head`` are the results that wait, in the order in which they leave. No beat
        goes there as long as ``held + ahead < depth``, whatever the marks of its tile say.
        """
        depth = self.config.depth
        head = Signal(range(depth))
        row = Signal(range(depth))  # of the tile, where its next beat is not emitted
        held = Signal(range(depth + 1))  # results given to the bank that the receiver has not taken
        ahead = Mux(self.i_first | self.i_emit, 0, row)
        place_ = Signal(range(depth), name="place")
        m.d.comb += place_.eq(head + ahead)
        given = self.o_go & self.i_emit
        with m.If(self.o_go):
            m.d.sync += row.eq(Mux(self.i_last, 0, ahead + 1))
        m.d.sync += [head.eq(head + given), held.eq(held + given - self.i_freed)]

        # A sum that is still on its way must not be added to: these are the places given last.
        underway: Value = Cat(place_, self.o_go)
        conflict: Value = Const(0, 1)
        for age in range(1, self.config.row_latency):
            earlier = Signal(len(underway), name=f"given_{age}")
            m.d.sync += earlier.eq(underway)
            conflict |= earlier == Cat(place_, Const(1, 1))
            underway = earlier

        m.d.comb += [
            self.o_control.valid.eq(self.o_go),
            self.o_control.row.eq(place_),
            self.o_control.add.eq(self.i_add),
            self.o_control.clear_nan.eq(self.i_clear_nan),
            self.o_control.emit.eq(self.i_emit),
            self.o_control.last.eq(self.i_last),
        ]
        return held + ahead < depth, ~(conflict & self.i_add)


class Mxu(wiring.Component):
    """The matrix unit: ``results = Σ over tiles of activations x weights``.

    Weight-stationary systolic array with double-buffered weights, converters at the edge and an fp32
    accumulator bank. One beat of a stream is one row; element 0 stands in the low bits. Weights of a tile
    come as R beats, row R-1 first; activations as 1 to ``depth`` beats; results leave in the order of the
    activations of tiles marked ``emit``. A tile starts when its weights are complete. Rows without an
    operand are fed with activation +0 and weight -0.

    Latency: ``config.latency`` cycles from an activation beat to its result beat, if nothing waits.
    Throughput: one beat per cycle on each stream; tiles that are added up follow one another without a
    bubble from ``config.shortest_tile`` beats on, if the accumulator bank holds all results or is as deep as
    ``config.latency - 1``. Back-pressure: on all streams, for any time; nothing is lost.

    Reset is synchronous and clears valid bits, marks and pointers, not the memories.

    Parameters
    ----------
    config
        Size, formats, pipeline.

    Members
    -------
    weights : In(stream of WeightBeat)
    activations : In(stream of ActivationBeat)
    results : Out(stream of ResultBeat)
    status : Out(:func:`~openmxu.status.status_signature`)
        Only with ``config.status``.
    """

    weights: Any
    activations: Any
    results: Any
    status: Any

    def __init__(self, config: MxuConfig) -> None:
        self.config = config
        super().__init__({
            "weights": In(stream.Signature(WeightBeat(config.source, config.columns, parts=config.splitter))),
            "activations": In(stream.Signature(ActivationBeat(config.source, config.rows, parts=config.splitter))),
            "results": Out(stream.Signature(ResultBeat(config.result, config.columns))),
        } | ({"status": Out(status_signature())} if config.status else {}))

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return "mxu"

    def elaborate(self, platform: object) -> Module:
        """Edges, admission, skew, array, bank."""
        m = Module()
        config = self.config
        m.submodules.weight_edge = weights = Edge(config, WeightBeat, config.columns)
        m.submodules.activation_edge = activations = Edge(config, ActivationBeat, config.rows)
        [array] = repeat(platform, lambda: SystolicArray(config), 1)
        m.submodules.array = array
        m.submodules.bank = bank = AccumulatorBank(config)
        m.submodules.admission = admission = Admission(config)
        width = config.operand.width
        m.submodules.weight_skew = weight_skew = Skew(width, config.columns)
        activation_skew = Skew(width, config.rows, step=config.row_step, base=1)
        m.submodules.activation_skew = activation_skew
        wiring.connect(m, wiring.flipped(self.weights), weights.i)
        wiring.connect(m, wiring.flipped(self.activations), activations.i)
        wiring.connect(m, bank.o, wiring.flipped(self.results))

        beat = activations.o.payload
        m.d.comb += [
            admission.i_weights.eq(weights.o.valid),
            weights.o.ready.eq(admission.o_shift),
            admission.i_activations.eq(activations.o.valid),
            admission.i_first.eq(beat.first),
            admission.i_last.eq(beat.last),
            admission.i_add.eq(beat.add),
            admission.i_clear_nan.eq(beat.clear_nan),
            admission.i_emit.eq(beat.emit),
            activations.o.ready.eq(admission.o_go),
            admission.i_freed.eq(bank.o_freed),
        ]
        m.d.comb += [
            weight_skew.i.eq(Value.cast(weights.o.payload.data)),
            activation_skew.i.eq(Value.cast(beat.data)),
            array.i_weights.eq(weight_skew.o),
            array.i_activations.eq(activation_skew.o),
            array.i_loads.eq(admission.o_loads),
            array.i_swaps.eq(admission.o_swaps),
            array.i_psums.eq(0),
            bank.i_psums.eq(array.o_psums),
        ]
        if config.status:
            self._connect_status(m, admission)
        cycles = activation_skew.base + config.array_latency
        m.d.comb += bank.i_control.eq(delay_marks(m, admission.o_control, cycles, name="control"))
        return m

    def _connect_status(self, m: Module, admission: Admission) -> None:
        """Let it see both ends of the unit and what admission does with the beats at the edges."""
        m.submodules.status = status = Status(self.config)
        m.d.comb += [
            *(getattr(status, f"i_{name}_{side}").eq(getattr(getattr(self, name), side))
              for name in ("weights", "activations", "results") for side in ("valid", "ready")),
            status.i_weights_last.eq(self.weights.payload.last),
            *(getattr(status, f"i_{mark}").eq(self.activations.payload[mark])
              for mark in ("first", "last", "add", "clear_nan", "emit")),
            status.i_go.eq(admission.o_go),
            status.i_waits_input.eq(admission.o_waits_input),
            status.i_waits_output.eq(admission.o_waits_output),
            status.i_clear.eq(self.status.clear),
            *(getattr(self.status, name).eq(getattr(status, f"o_{name}")) for name in (*COUNTERS, "error")),
        ]
