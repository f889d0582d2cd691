"""The largest words of the rows of a window: a word of bf16 becomes an integer in the order of the numbers.

::

    negative    its bits complemented       -0 below +0, -inf lowest
    positive    its bits, sign set
    NaN         all ones                    above all: a NaN in a window is its result
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.formats import BF16

_NAN = BF16.overflow | 1 << BF16.fraction_width - 1


def _key(word: Value) -> Value:
    is_nan = word[:-1] > BF16.overflow
    return Mux(is_nan, (1 << BF16.width) - 1, Mux(word[-1], ~word, Cat(word[:-1], 1)))


def _word(key: Value) -> Value:
    return Mux(key.all(), _NAN, Mux(key[-1], Cat(key[:-1], 0), ~key))


class Pool(wiring.Component):
    """The largest words of windows.

    Latency: two cycles from the last row of a window to its result. Throughput: a row in a cycle. Back-pressure: a
    result waits for ``o.ready``; no row is taken meanwhile.
    """

    def __init__(self, config: AcceleratorConfig) -> None:
        self.config = config
        row = config.size * BF16.width
        super().__init__(
            {
                "i_row": In(row),
                "i_valid": In(1),
                **dict.fromkeys(("i_first", "i_last"), In(1)),  # the first and the last row of a window
                "o_ready": Out(1),
                "o": Out(stream.Signature(row)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Compare each word with the largest one so far."""
        m = Module()
        m.d.comb += self.o_ready.eq(~self.o.valid | self.o.ready)
        valid, first, last = Signal(), Signal(), Signal()
        with m.If(self.o_ready):  # both steps go on
            m.d.sync += [valid.eq(self.i_valid), first.eq(self.i_first), last.eq(self.i_last)]
            m.d.sync += self.o.valid.eq(valid & last)
        for index in range(self.config.size):
            largest = Signal(BF16.width, name=f"largest_{index}", reset_less=True)
            key = Signal(BF16.width, name=f"key_{index}", reset_less=True)
            m.d.comb += self.o.payload.word_select(index, BF16.width).eq(_word(largest))
            with m.If(self.o_ready):
                m.d.sync += key.eq(_key(self.i_row.word_select(index, BF16.width)))
            with m.If(self.o_ready & valid & (first | (key > largest))):
                m.d.sync += largest.eq(key)
        return m
