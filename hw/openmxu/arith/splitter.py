"""Splitting of fp32 numbers into the parts of several passes."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.arith.converter import Converter
from openmxu.arith.datapath.shift import normalise
from openmxu.arith.datapath.unpack import unpack
from openmxu.spec.formats import BF16, FP32, check_subnormals
from openmxu.spec.passes import Part

_DROPPED = FP32.width - BF16.width


class Splitter(wiring.Component):
    """One part of an fp32 number, in bf16; see :class:`~openmxu.spec.passes.Part`.

    The rest after a truncation is exact. Each part has the sign of the number, zeros included. The rest of an infinity
    or a NaN, after :attr:`~openmxu.spec.passes.Part.HIGH`, is the canonical NaN.

    Latency: none, it is combinational. Throughput: one number per cycle. Back-pressure: none.

    Parameters
    ----------
    subnormals
        ``"flush"`` or ``"ieee"`` (gradual underflow).

    Members
    -------
    i : In(32)
    i_part : In(3)
        A :class:`~openmxu.spec.passes.Part`; other values are reserved.
    o : Out(16)

    Raises
    ------
    ValueError
        The mode is unknown.
    """

    def __init__(self, *, subnormals: str = "flush") -> None:
        self.subnormals = check_subnormals(subnormals)
        super().__init__({"i": In(FP32.width), "i_part": In(Part), "o": Out(BF16.width)})

    @property
    def latency(self) -> int:
        """Cycles from number to part."""
        return 0

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        return f"splitter_{self.subnormals}"

    def elaborate(self, platform: object) -> Module:
        """Compute the rest of the number and the rest of that; choose one by the part; convert."""
        m = Module()
        rest, is_nan = self._rest(m, self.i, "rest")
        last, _ = self._rest(m, rest, "last")
        m.submodules.converter = converter = Converter(FP32, BF16, subnormals=self.subnormals)
        # Bit 0 of a part means truncated; the upper bits choose the number, its rest or the last rest.
        truncated, level = self.i_part[0], self.i_part[1:]
        chosen = Mux(level[1], last, Mux(level[0], rest, self.i))
        keep = ~truncated | (is_nan & ~level.any())  # the payload may be all that makes it a NaN
        m.d.comb += [
            converter.i.eq(chosen & Cat(keep.replicate(_DROPPED), Const(-1, BF16.width))),
            self.o.eq(converter.o),
        ]
        return m

    def _rest(self, m: Module, bits: Value, name: str) -> tuple[Value, Value]:
        """The value of a number's lower bits, as an fp32 number of the same sign; and whether the number is a NaN."""
        number = unpack(m, bits, FP32, self.subnormals, name=f"{name}_of")
        left = Cat(number.significand[:_DROPPED], Const(0, FP32.significand_width - _DROPPED))
        # In flush mode a rest that is too small needs nothing but an exponent field of zero.
        limit = None
        if self.subnormals == "ieee":
            limit = Signal(FP32.exponent_width, name=f"{name}_limit")
            m.d.comb += limit.eq(number.exponent - 1)
        significand, shift, _ = normalise(m, left, limit=limit, name=name)
        exponent = Signal(FP32.exponent_width + 1, name=f"{name}_exponent")
        m.d.comb += exponent.eq(number.exponent - shift)
        normal = significand[-1] & ~exponent[-1]
        magnitude = Cat(significand[:-1], exponent[:-1] & normal.replicate(FP32.exponent_width))
        result = Signal(FP32.width, name=name)
        special = number.infinite | number.nan
        m.d.comb += result.eq(Mux(special, FP32.quiet_nan, Cat(magnitude, number.sign)))
        return result, number.nan
