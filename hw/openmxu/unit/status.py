"""Status of a unit: counters of all, busy and stalled cycles, and an error code for mistakes of its senders."""

from enum import IntEnum

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.spec.config import MxuConfig
from openmxu.spec.marks import MARKS, TILE_MARKS

COUNTERS = ("cycles", "busy", "input_stalls", "output_stalls")
"""Names of the counters, each of 32 bits, which wrap."""

_COUNTER = 32


class Error(IntEnum):
    """The first mistake of a sender, shown in the cycle after the unit accepted the beat.

    The unit never stops for a mistake. A result leaves for each beat with ``emit``, and results of tiles before the
    mistake are right. Each member says what its mistake spoils. After one of the first three, only a reset guarantees
    right results. If beats of both streams are wrong in a cycle, that of the weights is shown; if a beat makes two
    mistakes, ``TILE_CUT`` before ``WEIGHTS_NONE``, and ``TILE_LONG`` before ``MARKS_CHANGED``.
    """

    NONE = 0
    WEIGHTS_SHORT = 1
    """``last`` came with a beat of weights before the R-th. R beats are a tile's, whatever ``last`` says: if some are
    missing, those of the next tile take their place, and all later tiles have wrong weights."""
    WEIGHTS_LONG = 2
    """The R-th beat of a tile's weights came without ``last``. If there are more, they are the next tile's, and all
    later tiles have wrong weights."""
    TILE_CUT = 3
    """``first`` came before the ``last`` of the previous tile. The new tile begins: it waits for weights as any other
    does, and takes those of the next tile if it has none of its own."""
    TILE_UNBEGUN = 4
    """A beat of activations came after a ``last`` and without ``first``. A tile begins that is multiplied with the
    active weights; later tiles are right."""
    TILE_LONG = 5
    """A tile had more beats than the accumulator bank has rows. Beats without ``emit`` wrap to the tile's first place;
    later sums are right."""
    MARKS_CHANGED = 6
    """``add``, ``clear_nan``, ``emit`` or ``keep`` changed within a tile. Each beat is treated as it says; later
    sums are right."""
    WEIGHTS_NONE = 7
    """``keep`` came with ``first`` when no tile since reset had taken weights. The tile is multiplied with whatever the
    array holds; later tiles are right."""


def status_signature() -> wiring.Signature:
    """The ports that ``status`` adds to a unit, with directions as seen from inside.

    Members
    -------
    cycles : Out(32)
        Cycles from the first beat accepted on either input stream to the last result beat accepted, both included.
    busy : Out(32)
        Cycles in which a beat of activations entered the array.
    input_stalls : Out(32)
        Cycles without a beat entering the array because an activation or weight beat is missing, from a tile's first
        weight beat to its last activation beat.
    output_stalls : Out(32)
        Cycles without a beat entering the array because no place in the accumulator bank is free: the receiver was
        late, or the bank is too shallow for this stream of tiles.
    error : Out(3)
        An :class:`Error`: the first one since reset or ``clear``.
    clear : In(1)
        Zero the counters and ``error``, which then begin with this very cycle: nothing is counted twice or lost.
    """
    return wiring.Signature({name: Out(_COUNTER) for name in COUNTERS} | {"error": Out(Error), "clear": In(1)})


class Status(wiring.Component):
    """Counters and the error code of a unit; it observes the unit's signals and changes none.

    Latency: one cycle from an event to the outputs that show it. Throughput and back-pressure: none.

    Parameters
    ----------
    config
        The unit.

    Members
    -------
    i_weights_valid, i_weights_ready, i_activations_valid, i_activations_ready, i_results_valid, i_results_ready : In(1)
        ``valid`` and ``ready`` of the unit's streams.
    i_weights_last, i_first, i_last, i_add, i_clear_nan, i_emit, i_keep : In(1)
        Marks on the streams of weights and activations.
    i_go : In(1)
        A beat of activations enters the array.
    i_waits_input, i_waits_output : In(1)
        No beat enters the array: ``i_waits_input`` if an input beat is missing, ``i_waits_output`` if no place is free.
    i_clear : In(1)
    o_cycles, o_busy, o_input_stalls, o_output_stalls : Out(32)
    o_error : Out(3)
        See :func:`status_signature`.
    """

    module_name = "status"
    """Name of the exported module."""

    def __init__(self, config: MxuConfig) -> None:
        self.config = config
        handshakes = (f"{name}_{wire}" for name in ("weights", "activations", "results") for wire in ("valid", "ready"))
        inputs = (*handshakes, "weights_last", *MARKS, "go", "waits_input", "waits_output", "clear")
        super().__init__(
            {f"i_{name}": In(1) for name in inputs}
            | {f"o_{name}": Out(_COUNTER) for name in COUNTERS}
            | {"o_error": Out(Error)}
        )

    def elaborate(self, platform: object) -> Module:
        """Count events; follow the tiles to find errors."""
        m = Module()
        begun = Signal()
        elapsed = Signal(_COUNTER)
        now = Signal(_COUNTER)  # cycles elapsed, this one included
        taken = [
            getattr(self, f"i_{stream}_valid") & getattr(self, f"i_{stream}_ready")
            for stream in ("weights", "activations", "results")
        ]
        begins = taken[0] | taken[1] | (begun & ~self.i_clear)
        m.d.comb += now.eq(self._count(elapsed, begins))
        m.d.sync += [
            begun.eq(begins),
            elapsed.eq(now),
            self.o_cycles.eq(Mux(taken[2], now, Mux(self.i_clear, 0, self.o_cycles))),
            self.o_busy.eq(self._count(self.o_busy, self.i_go)),
            self.o_input_stalls.eq(self._count(self.o_input_stalls, self.i_waits_input)),
            self.o_output_stalls.eq(self._count(self.o_output_stalls, self.i_waits_output)),
        ]
        # Weights first, where both are wrong in the same cycle.
        errors = [self._find_weights_error(m), self._find_activations_error(m)]
        with m.If(self.i_clear | ~self.o_error.any()):
            m.d.sync += self.o_error.eq(Mux(errors[0].any(), *errors))
        return m

    def _count(self, counter: Value, event: Value) -> Value:
        """A counter after this cycle: ``clear`` sets all bits but the lowest to 0, as a flip-flop's reset can."""
        return Mux(self.i_clear, event, counter + event)

    # Beats are checked as they are taken, not as they enter the array: one that waits for ever is reported, too.

    def _find_weights_error(self, m: Module) -> Value:
        """The error in the beat of weights that is taken in this cycle."""
        missing = Signal(range(self.config.rows), init=self.config.rows - 1)
        error = Signal(Error, name="weights_error")
        with m.If(self.i_weights_valid & self.i_weights_ready):
            m.d.sync += missing.eq(Mux(missing == 0, self.config.rows - 1, missing - 1))
            with m.If((missing == 0) & ~self.i_weights_last):
                m.d.comb += error.eq(Error.WEIGHTS_LONG)
            with m.If((missing != 0) & self.i_weights_last):
                m.d.comb += error.eq(Error.WEIGHTS_SHORT)
        return error

    def _find_activations_error(self, m: Module) -> Value:
        """The error in the beat of activations that is taken in this cycle."""
        inside = Signal()
        count = Signal(range(self.config.depth + 1))
        marks = Cat(getattr(self, f"i_{mark}") for mark in TILE_MARKS)
        begun_with = Signal(len(marks))
        full = count == self.config.depth
        begins = self.i_first | ~inside
        supplied = Signal()  # a tile has taken weights
        error = Signal(Error, name="activations_error")
        with m.If(self.i_activations_valid & self.i_activations_ready):
            m.d.sync += [inside.eq(~self.i_last), count.eq(Mux(begins, 1, count + ~full))]
            with m.If(begins):
                m.d.sync += begun_with.eq(marks)
            with m.If(self.i_first & ~self.i_keep):
                m.d.sync += supplied.eq(1)
            with m.If(begins & inside):
                m.d.comb += error.eq(Error.TILE_CUT)
            with m.Elif(begins & ~self.i_first):
                m.d.comb += error.eq(Error.TILE_UNBEGUN)
            with m.Elif(begins & self.i_keep & ~supplied):
                m.d.comb += error.eq(Error.WEIGHTS_NONE)
            with m.Elif(~begins & full):
                m.d.comb += error.eq(Error.TILE_LONG)
            with m.Elif(~begins & (marks != begun_with)):
                m.d.comb += error.eq(Error.MARKS_CHANGED)
        return error
