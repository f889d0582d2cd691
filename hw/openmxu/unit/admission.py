"""Admission, the issue control of the unit: which beat enters the array, and when.

::

    R = 3, row_step = 1; tiles a, b, c of three beats; weights are always there

    cycle            0    1    2    3    4    5    6    7
    o_go             a0   a1   a2   b0   b1   b2   c0
    o_shift               b    b    b    c    c    c         the third beat of weights completes the tile, whose first
                                                             activation goes at once
    o_swaps[0]                 a              b              in each row the activations from here on meet the weights
    o_swaps[1]                      a              b         loaded last
    o_swaps[2]                           a              b
    o_loads[0]                 b    b    b    c    c    c    beat n of the weights moves rows 0 to n, as the swap mark
    o_loads[1]                      b    b         c    c    passes row n
    o_loads[2]                           b              c

    i_activations, marks ──▶ [ place ] ──▶ room? written? ─┐
                                                           ├─▶ o_go ──▶ swaps, control, next beat
    i_weights ──▶ [ waits ] ──▶ o_shift ──▶ loaded? ───────┘

Invariants: beat n of a tile's weights, counted from 0, moves rows 0 to n, so it may enter in the cycle in which row n's
swap mark passes, not earlier. With several terms, a row of processing elements moves as a whole: beat n moves those up
to n // terms, and a row that the swap mark passes allows ``terms`` beats. A beat gets a place in the bank only if no
waiting result occupies it, and adds only to a sum that has been written by the time it is read.

Speed: a beat's place depends on the beats before it, not on when they leave. So it is computed as the beat is taken.

Cost: a shift register of (R / terms - 1) · row_step + 2 swap marks, counters of beats allowed and of beats missing, the
ring's pointers, and the places assigned in the last row_latency - 1 cycles, each compared with the next one.
"""

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.spec.config import MxuConfig
from openmxu.spec.marks import MARKS
from openmxu.unit.accumulator import Control


class Admission(wiring.Component):
    """Takes beats of weights and of activations, and decides when they enter the array, which cannot stall.

    One beat of each stream waits here, without its words. A row of shadow registers is loaded again only when the swap
    mark has passed it; a tile that does not keep the active weights starts only when its own are loaded; a beat gets a
    place in the accumulator bank only if no waiting result occupies it, and adds only to a sum that has been written by
    then.

    Latency: from a beat being taken to ``o_shift`` or ``o_go`` one cycle, if nothing is waited for; from there to
    ``o_loads`` one, to ``o_swaps[0]`` two. Throughput: one beat per cycle on each stream. Back-pressure: ready when the
    beat that waits leaves, or none waits.

    Parameters
    ----------
    config
        The unit.
    biased
        Whether there is the mark ``bias``, see :class:`~openmxu.unit.edge.ActivationBeat`.

    Members
    -------
    i_weights : In(1)
        A beat of weights is offered.
    o_weights_ready : Out(1)
        Ready: a beat of weights is taken, if one is offered.
    o_weights_taken : Out(1)
        Ready and offered: a beat of weights is taken.
    o_shift : Out(1)
        The beat of weights that waits leaves: it enters the array in the next cycle.
    o_loads : Out(element_rows)
        Load marks for the array.
    i_activations : In(1)
        A beat of activations is offered.
    i_first, i_last, i_add, i_clear_nan, i_emit, i_keep : In(1)
        The marks of the offered beat.
    o_activations_ready : Out(1)
        Ready: a beat of activations is taken, if one is offered.
    o_activations_taken : Out(1)
        Ready and offered: a beat of activations is taken.
    o_go : Out(1)
        The beat of activations that waits leaves: it enters the array two cycles later.
    o_swaps : Out(element_rows)
        Swap marks for the array, skewed.
    o_control : Out(Control)
        With ``o_go``: the marks and the place of the beat's sums, for the accumulator bank.
    i_freed : In(1)
        The bank reads a result for the last time.
    o_waits_input : Out(1)
        Stalled by input: work is in progress, and the next activation or weight beat has not arrived. Only with
        ``config.status``.
    o_waits_output : Out(1)
        Stalled by output: an activation beat waits for a place in the accumulator bank. Only with ``config.status``.
    """

    def __init__(self, config: MxuConfig, *, biased: bool = False) -> None:
        self.config = config
        self._marks = ("add", "clear_nan", "emit", "last", *(["bias"] if biased else []))
        super().__init__(
            {
                "i_weights": In(1),
                "o_weights_ready": Out(1),
                "o_weights_taken": Out(1),
                "o_shift": Out(1),
                "o_loads": Out(config.element_rows),
                "i_activations": In(1),
                **{f"i_{mark}": In(1) for mark in dict.fromkeys((*MARKS, *self._marks))},
                "o_activations_ready": Out(1),
                "o_activations_taken": Out(1),
                "o_go": Out(1),
                "o_swaps": Out(config.element_rows),
                "o_control": Out(Control(config.depth, biased=biased)),
                "i_freed": In(1),
            }
            | ({"o_waits_input": Out(1), "o_waits_output": Out(1)} if config.status else {})
        )

    def elaborate(self, platform: object) -> Module:
        """Hold one beat of each stream; let it go when its weights and its place are ready."""
        m = Module()
        # The waiting beats: one of weights, and one of activations with its place.
        weights = Signal()
        activations = Signal()
        swap = Signal(reset_less=True)
        marks = {mark: Signal(name=mark, reset_less=True) for mark in self._marks}
        m.d.comb += [
            self.o_weights_ready.eq(self.o_shift | ~weights),
            self.o_weights_taken.eq(self.i_weights & self.o_weights_ready),
            self.o_activations_ready.eq(self.o_go | ~activations),
            self.o_activations_taken.eq(self.i_activations & self.o_activations_ready),
        ]
        with m.If(self.o_weights_ready):
            m.d.sync += weights.eq(self.i_weights)
        with m.If(self.o_activations_ready):
            m.d.sync += [
                activations.eq(self.i_activations),
                swap.eq(self.i_first & ~self.i_keep),
                *(marks[mark].eq(getattr(self, f"i_{mark}")) for mark in marks),
            ]
        place, limit = self._assign_place(m)
        loaded, loading = self._load_weights(m, weights, swap)
        room, written = self._check_place(m, place, limit, marks)
        m.d.comb += [
            self.o_go.eq(activations & (room & written) & (loaded | ~swap)),
            self.o_control.valid.eq(self.o_go),
            self.o_control.row.eq(place),
            *(self.o_control[mark].eq(value) for mark, value in marks.items()),
        ]
        if self.config.status:
            inside = Signal()
            with m.If(self.o_go):
                m.d.sync += inside.eq(~marks["last"])
            missing = Mux(activations, swap & ~loaded & ~weights, 1)
            m.d.comb += [
                self.o_waits_input.eq((inside | loading) & missing),
                self.o_waits_output.eq(activations & (loaded | ~swap) & ~room),
            ]
        return m

    def _assign_place(self, m: Module) -> tuple[Value, Value]:
        """The waiting beat's place in the bank, and its limit: the place is free while fewer results wait in the bank.

        The bank is a ring. A beat with ``emit`` goes to ``head`` and moves it by one, any other to ``head + ahead``::

            |<----- held ------>|<------ ahead ------>|
            | waiting results   | sums being built    | this beat ...
                                ^ head

        So the ``held`` places before ``head`` are the results that wait, in the order in which they leave. No beat
        goes there as long as ``held + ahead < depth``, whatever the marks of its tile say.
        """
        depth = self.config.depth
        head = Signal(range(depth))
        row = Signal(range(depth))  # the next beat's row in its tile, if it is not emitted
        ahead = Mux(self.i_first | self.i_emit, 0, row)
        place = Signal(range(depth), reset_less=True)
        limit = Signal(range(depth + 1), reset_less=True)
        with m.If(self.o_activations_ready):
            m.d.sync += [place.eq(head + ahead), limit.eq(depth - ahead)]
            with m.If(self.i_activations):
                m.d.sync += [head.eq(head + self.i_emit), row.eq(Mux(self.i_last, 0, ahead + 1))]
        return place, limit

    def _check_place(self, m: Module, place: Value, limit: Value, marks: Mapping[str, Value]) -> tuple[Value, Value]:
        """Whether the waiting beat's place is free, and whether the sum there is written by the time it is read."""
        held = Signal(range(self.config.depth + 1))  # results given to the bank that the receiver has not taken
        freed = Signal()
        given = Signal()
        m.d.comb += given.eq(self.o_go & marks["emit"])
        m.d.sync += freed.eq(self.i_freed)
        with m.If(given & ~freed):
            m.d.sync += held.eq(held + 1)
        with m.Elif(freed & ~given):
            m.d.sync += held.eq(held - 1)

        # A sum that is still on its way must not be added to: compare the place with those assigned last.
        underway: Value = Cat(place, self.o_go)
        conflict: Value = Const(0, 1)
        for age in range(1, self.config.row_latency):
            earlier = Signal(len(underway), name=f"given_{age}")
            m.d.sync += earlier.eq(underway)
            conflict |= earlier == Cat(place, Const(1, 1))
            underway = earlier
        return held < limit, ~(conflict & marks["add"])

    def _load_weights(self, m: Module, waiting: Value, swap: Value) -> tuple[Value, Value]:
        """Shift weights in as rows of shadow registers come free; return whether a tile's are complete, or begun."""
        rows, step, terms = self.config.element_rows, self.config.row_step, self.config.terms
        # The swap mark enters row 0 with the first activation, two cycles after its beat leaves,
        # and each further row when that row's activation does.
        swaps = Signal((rows - 1) * step + 2)
        entering = self.o_go & swap
        m.d.sync += swaps.eq(Cat(entering, swaps))
        m.d.comb += self.o_swaps.eq(Cat(swaps[row * step + 1] for row in range(rows)))

        # Weights shift down as a chain, row R-1's first, so that the n-th beat moves rows 0 to n: each row
        # that the swap mark reaches allows one more beat, whose load marks enter in the same cycle.
        beats = self.config.rows
        reached = Signal()
        m.d.sync += reached.eq(entering | Cat(swaps[row * step - 1] for row in range(1, rows)).any())
        some = Signal(init=1)  # one beat is allowed
        more = Signal(range(beats), init=beats - 1)  # and this many more
        m.d.comb += self.o_shift.eq(waiting & (reached | some))
        allowed = more + some
        with m.If(reached & ~self.o_shift):
            m.d.sync += [some.eq(1), more.eq(allowed + (terms - 1) if terms > 1 else allowed)]
        with m.Elif(self.o_shift & ~reached):
            m.d.sync += [some.eq(more.any()), more.eq(more - more.any())]
        if terms > 1:
            with m.Elif(reached):
                m.d.sync += [some.eq(1), more.eq(allowed + (terms - 2))]

        # A counter decides in this cycle; the marks of all rows follow in the next.
        left = Signal(range(beats), init=beats - 1)  # beats of the tile after this one
        final = Signal(init=beats == 1)  # none is left; a register of its own, as o_go waits for it
        complete = Signal()
        m.d.comb += complete.eq(self.o_shift & final)
        with m.If(self.o_shift):
            m.d.sync += [left.eq(Mux(final, beats - 1, left - 1)), final.eq((left == 1) if beats > 1 else 1)]
        self._mark_loads(m)
        loaded = Signal()
        m.d.sync += loaded.eq((loaded | complete) & ~entering)
        return loaded | complete, loaded | (left != beats - 1)

    def _mark_loads(self, m: Module) -> None:
        """Move one more row with each beat of weights, or each ``terms`` beats, and one row again after the last."""
        rows, terms = self.config.element_rows, self.config.terms
        shifted = Signal()
        moving = Signal(rows, init=1)
        m.d.sync += shifted.eq(self.o_shift)
        m.d.comb += self.o_loads.eq(moving & shifted.replicate(rows))
        grows = shifted
        if terms > 1:
            beat = Signal(range(terms))
            m.d.sync += beat.eq(beat + shifted)
            grows = shifted & beat.all()
        with m.If(grows):
            m.d.sync += moving.eq(Mux(moving[-1], 1, Cat(Const(1, 1), moving)))
