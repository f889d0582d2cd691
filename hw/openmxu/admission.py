"""Admission, the issue control of the unit: which beat enters the array, and when.

::

    R = 3, row_step = 1; tiles a, b, c of three beats; weights are always there

    cycle            0    1    2    3    4    5    6
    o_go             a0   a1   a2   b0   b1   b2   c0
    o_swaps[0]            a              b              in each row the activations from here on meet the weights
    o_swaps[1]                 a              b         loaded last
    o_swaps[2]                      a              b
    o_shift               b    b    b    c    c    c    a beat of weights follows each swap mark; the third
                                                        completes the tile, whose first activation goes at once

Invariants: beat n of a tile's weights, counted from 0, moves rows 0 to n, so it may enter in the cycle in which row n's
swap mark passes, not earlier. A beat gets a place in the bank only if no waiting result occupies it, and adds only to a
sum that has been written by the time it is read.

Cost: a shift register of (R - 1) · row_step + 1 swap marks, a counter of beats allowed, the ring's pointers, and the
places given in the last row_latency - 1 cycles, each compared with the next one.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.accumulator import Control
from openmxu.config import MxuConfig
from openmxu.marks import MARKS

__all__ = ["Admission"]


class Admission(wiring.Component):
    """Decides when the next beat of weights and of activations enters the array, which cannot stall.

    A row of shadow registers is loaded again only when the swap mark has passed it; a tile starts only when all its
    weights are loaded; a beat gets a place in the accumulator bank only if no waiting result occupies it, and adds only
    to a sum that has been written by then.

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
        Stalled by input: work is in progress, and the next activation or weight beat has not arrived. Only with
        ``config.status``.
    o_waits_output : Out(1)
        Stalled by output: an activation beat waits for a place in the accumulator bank. Only with ``config.status``.
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
        super().__init__(
            {
                "i_weights": In(1),
                "o_shift": Out(1),
                "o_loads": Out(config.rows),
                "i_activations": In(1),
                **{f"i_{mark}": In(1) for mark in MARKS},
                "o_go": Out(1),
                "o_swaps": Out(config.rows),
                "o_control": Out(Control(config.depth)),
                "i_freed": In(1),
            }
            | ({"o_waits_input": Out(1), "o_waits_output": Out(1)} if config.status else {})
        )

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
