# amaranth: UnusedElaboratable=no
# (a netlist may leave a component out of which a simulator has its own)
"""The accumulator bank: fp32 sums over tiles, stored until the receiver accepts them.

::

    of a column                                                   i_psum ──▶ [ ] ───────┐
                                                                                        ▼
    i_control ──▶ [ ] ──▶ o_control,        ┌─▶ NaN cleared ──▶ add ? sum : -0 ─▶[ ]─▶( + ) row_step registers
        │ row, add        to the next one   │                                           │
        ▼                                   │                                           │
    [ memory ] ── old sum ──────────────────┘                                           │
        ▲ └────── result port: i_fetch, i_row ──▶ o_data                                │
        └─────────────────────────── write_latency cycles after i_psum ─────────────────┘

``i_control`` is a cycle ahead of ``i_psum``: so the old sum leaves the memory as the new one arrives, and both are
registered in front of the adder.

Invariants: a sum that replaces the old one is added to -0, which changes no number and no zero's sign. A row is
read when its last column is written, and rows leave in the order in which they entered: the memory is the queue of
results, and the skew of the columns is gone by then. Admission uses no place again before ``o_freed``.

Cost: a memory of ``depth`` words with two read ports and a write port, and an fp32 adder, for each column.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from openmxu.arith import Adder, Converter
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32, FloatFormat
from openmxu.unit.hierarchy import repeat
from openmxu.unit.skew import delay_marks

_NEGATIVE_ZERO = 1 << (FP32.width - 1)

BIASES = 16
"""Biases that a column holds, in a ring. A bias comes before the weights of its tile, and weights of two tiles at most
wait in a queue. So when a bias is overwritten, twelve tiles have entered the array after the one that uses it, and no
sum needs it.
"""

_PLACE = (BIASES - 1).bit_length()


class Control(data.StructLayout):
    """The marks of a row of sums, and its place.

    Members
    -------
    valid : 1
        A row is present.
    row : log2(depth)
        Its place in the memory.
    add, clear_nan, emit, last : 1
        The marks of the activation stream.
    bias : 1
        The same; only with ``biased``.
    """

    def __init__(self, depth: int, *, biased: bool = False) -> None:
        marks = ("add", "clear_nan", "emit", "last", *(["bias"] if biased else []))
        super().__init__({"valid": 1, "row": (depth - 1).bit_length(), **dict.fromkeys(marks, 1)})


class ResultBeat(data.StructLayout):
    """A row of results: ``data``, a word per column, column 0 lowest; ``last`` marks a tile's last row."""

    def __init__(self, fmt: FloatFormat, columns: int) -> None:
        super().__init__({"data": data.ArrayLayout(fmt.width, columns), "last": 1})


class AccumulatorColumn(wiring.Component):
    """One column's sums, ``memory[row] = psum`` or ``memory[row] + psum``.

    Latency: the sum is written ``config.write_latency`` cycles after ``i_psum``, and can be read in the next cycle;
    ``o_control`` is ``i_control`` one cycle later, for the next column. Throughput: one row per cycle, but a sum is
    added to a row at least ``config.row_latency`` cycles after that row's previous sum. Back-pressure: none.

    Parameters
    ----------
    config
        The unit that the column is part of.
    biased
        Whether sums may start from biases: a ring of :data:`BIASES` words, of which a tile marked ``bias`` uses the
        oldest one.

    Members
    -------
    i_psum : In(32)
    i_control : In(Control)
        One cycle before its sum.
    o_control : Out(Control)
    i_fetch : In(1)
        Read ``i_row``; ``o_data`` shows it from the next cycle on, until the next fetch.
    i_row : In(log2(depth))
    o_data : Out(result.width)
    i_bias : In(32)
    i_bias_write : In(1)
        ``i_bias`` is the newest bias.
    i_bias_place : In(4)
        Its place in the ring.
    i_bias_oldest : In(4)
        Place of the bias of ``i_control``'s tile.
    o_bias_oldest : Out(4)
        ``i_bias_oldest`` one cycle later, for the next column. These five only with ``biased``.
    """

    def __init__(self, config: MxuConfig, *, biased: bool = False) -> None:
        self.config = config
        self.biased = biased
        control = Control(config.depth, biased=biased)
        super().__init__(
            {
                "i_psum": In(FP32.width),
                "i_control": In(control),
                "o_control": Out(control),
                "i_fetch": In(1),
                "i_row": In(control["row"].shape),
                "o_data": Out(config.result.width),
            }
            | ({"i_bias": In(FP32.width), "i_bias_write": In(1), "i_bias_place": In(_PLACE)} if biased else {})
            | ({"i_bias_oldest": In(_PLACE), "o_bias_oldest": Out(_PLACE)} if biased else {})
        )

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        result = "" if self.config.result == FP32 else f"_{self.config.result}"
        bias = "_bias" if self.biased else ""
        return f"accumulator_{self.config.subnormals}_s{self.config.row_step}_d{self.config.depth}{result}{bias}"

    def elaborate(self, platform: object) -> Module:
        """Read the old sum, add, write back; a second port reads results."""
        m = Module()
        m.submodules.adder = adder = Adder(FP32, subnormals=self.config.subnormals, stages=self.config.row_step)
        m.submodules.memory = memory = Memory(shape=FP32.width, depth=self.config.depth, init=[])
        old = memory.read_port()
        new = memory.write_port()
        result = memory.read_port()

        psum = Signal(FP32.width, reset_less=True)
        summand = Signal(FP32.width, reset_less=True)
        control = self.o_control
        m.d.sync += [control.eq(self.i_control), psum.eq(self.i_psum)]
        m.d.comb += [old.addr.eq(self.i_control.row), old.en.eq(self.i_control.valid & self.i_control.add)]

        # A sum that replaces the old one is added to -0, the neutral element: no path beside the adder is needed.
        exponent = old.data[FP32.fraction_width : -1]
        is_nan = exponent.all() & old.data[: FP32.fraction_width].any()
        kept = old.data & ~(control.clear_nan & is_nan).replicate(FP32.width)
        m.d.sync += summand.eq(Mux(control.add, kept, self._start(m)))
        m.d.comb += [adder.i_a.eq(summand), adder.i_b.eq(psum)]

        write = delay_marks(m, Cat(control.row, control.valid), self.config.write_latency, name="write")
        m.d.comb += [
            new.addr.eq(write[:-1]),
            new.en.eq(write[-1]),
            new.data.eq(adder.o),
            result.addr.eq(self.i_row),
            result.en.eq(self.i_fetch),
        ]
        if self.config.result == FP32:
            m.d.comb += self.o_data.eq(result.data)
        else:
            m.submodules.converter = converter = Converter(FP32, self.config.result, subnormals=self.config.subnormals)
            m.d.comb += [converter.i.eq(result.data), self.o_data.eq(converter.o)]
        return m

    def _start(self, m: Module) -> ValueLike:
        """The number that a sum starts from: the bias of its tile, or -0."""
        if not self.biased:
            return _NEGATIVE_ZERO
        m.submodules.biases = biases = Memory(shape=FP32.width, depth=BIASES, init=[])
        write, read = biases.write_port(), biases.read_port()
        m.d.sync += self.o_bias_oldest.eq(self.i_bias_oldest)
        m.d.comb += [
            write.addr.eq(self.i_bias_place),
            write.data.eq(self.i_bias),
            write.en.eq(self.i_bias_write),
            read.addr.eq(self.i_bias_oldest),
        ]
        return Mux(self.o_control.bias, read.data, _NEGATIVE_ZERO)


class Emission(wiring.Component):
    """Decides when a row leaves the accumulator bank: after its write, in the order in which rows entered.

    Latency: ``config.write_latency`` cycles from ``i_control`` to the row being written; one more to ``o_fetch``, one
    more to ``o_valid``. Throughput: one row per cycle. Back-pressure: ``i_ready`` may stay low forever.

    Parameters
    ----------
    config
        The unit that the bank is part of.

    Members
    -------
    i_control : In(Control)
        ``o_control`` of the bank's last column, in the cycle of its sum.
    o_fetch : Out(1)
        All columns read ``o_row`` now, for the last time.
    o_row : Out(log2(depth))
    o_valid : Out(1)
        The row that the columns have read is offered on the result stream.
    o_last : Out(1)
        That row is the last of its tile.
    i_ready : In(1)
        The receiver takes the row, if one is offered.
    """

    def __init__(self, config: MxuConfig) -> None:
        self.config = config
        control = Control(config.depth)
        super().__init__(
            {
                "i_control": In(control),
                "o_fetch": Out(1),
                "o_row": Out(control["row"].shape),
                "o_valid": Out(1),
                "o_last": Out(1),
                "i_ready": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """A ring of places: written at its head, read at its tail."""
        m = Module()
        depth = self.config.depth
        leaving = Cat(self.i_control.last, self.i_control.valid & self.i_control.emit)
        last, written = delay_marks(m, leaving, self.config.write_latency, name="leaving")

        m.submodules.lasts = lasts = Memory(shape=1, depth=depth, init=[])
        head = Signal(range(depth))
        # One assignment each: the names that Amaranth finds for two in one depend on the version of Python.
        [mark_in] = [lasts.write_port()]
        mark_out = lasts.read_port()
        waiting = Signal(range(depth + 1))
        m.d.comb += [
            mark_in.addr.eq(head),
            mark_in.data.eq(last),
            mark_in.en.eq(written),
            mark_out.addr.eq(self.o_row),
            mark_out.en.eq(self.o_fetch),
            self.o_last.eq(mark_out.data),
            # The memory's output registers hold the row until it is taken.
            self.o_fetch.eq((waiting != 0) & (self.i_ready | ~self.o_valid)),
        ]
        m.d.sync += [
            waiting.eq(waiting + written - self.o_fetch),
            head.eq(head + written),
            self.o_row.eq(self.o_row + self.o_fetch),
        ]
        with m.If(self.o_fetch | self.i_ready):
            m.d.sync += self.o_valid.eq(self.o_fetch)
        return m


class AccumulatorBank(wiring.Component):
    """C accumulator columns and the result stream in front of them.

    The bank is also the buffer for results: a row that is to be emitted stays in memory until the receiver
    takes it. Rows are emitted in the order in which they entered.

    Latency: ``columns + config.write_latency + 1`` cycles from column 0's sum to the row on the result stream.
    Throughput: one row per cycle. Back-pressure: ``o.ready`` may stay low forever; no place may be used again
    before ``o_freed``.

    Parameters
    ----------
    config
        The unit that the bank is part of.
    biased
        Whether sums may start from biases.

    Members
    -------
    i_psums : In(columns · 32)
        Column c's sum comes c cycles after column 0's.
    i_control : In(Control)
        One cycle before column 0's sum.
    o_freed : Out(1)
        A row has been read from memory for the last time.
    o : Out(stream of ResultBeat)
    i_biases : In(columns · 32)
    i_bias_write : In(1)
        These are biases, a word for each column, for the next tile marked ``bias`` that has none yet. Only with
        ``biased``.
    """

    def __init__(self, config: MxuConfig, *, biased: bool = False) -> None:
        self.config = config
        self.biased = biased
        super().__init__(
            {
                "i_psums": In(config.columns * FP32.width),
                "i_control": In(Control(config.depth, biased=biased)),
                "o_freed": Out(1),
                "o": Out(stream.Signature(ResultBeat(config.result, config.columns))),
            }
            | ({"i_biases": In(config.columns * FP32.width), "i_bias_write": In(1)} if biased else {})
        )

    def elaborate(self, platform: object) -> Module:
        """Control moves right beside the sums; a row can leave when the last column has written it."""
        m = Module()
        m.submodules.emission = emission = Emission(self.config)
        control = self.i_control
        columns = repeat(platform, lambda: AccumulatorColumn(self.config, biased=self.biased), self.config.columns)
        if self.biased:
            # Both are the bank's: a column, which is written once for all, keeps nothing that a reset must reach.
            place = Signal(_PLACE)
            oldest = Signal(_PLACE)
            m.d.sync += place.eq(place + self.i_bias_write)
            m.d.sync += oldest.eq(oldest + (control.valid & control.bias & control.last))
        for index, column in enumerate(columns):
            m.submodules[f"column_{index}"] = column
            m.d.comb += [
                column.i_psum.eq(self.i_psums.word_select(index, FP32.width)),
                column.i_control.eq(control),
                column.i_fetch.eq(emission.o_fetch),
                column.i_row.eq(emission.o_row),
                self.o.payload.data[index].eq(column.o_data),
            ]
            if self.biased:
                m.d.comb += [
                    column.i_bias.eq(self.i_biases.word_select(index, FP32.width)),
                    column.i_bias_write.eq(self.i_bias_write),
                    column.i_bias_place.eq(place),
                    column.i_bias_oldest.eq(oldest),
                ]
                oldest = column.o_bias_oldest
            control = column.o_control
        m.d.comb += [
            emission.i_control.eq(control),
            emission.i_ready.eq(self.o.ready),
            self.o.valid.eq(emission.o_valid),
            self.o.payload.last.eq(emission.o_last),
            self.o_freed.eq(emission.o_fetch),
        ]
        return m
