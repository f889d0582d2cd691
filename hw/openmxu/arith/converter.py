"""Conversion between floating-point formats."""

from typing import ClassVar

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from openmxu.arith.datapath.pipeline import Pipeline, Rigid
from openmxu.arith.datapath.round import exponent_shape, round_pack
from openmxu.arith.datapath.shift import normalise
from openmxu.arith.datapath.unpack import unpack
from openmxu.spec.formats import FloatFormat, check_subnormals
from openmxu.spec.stages import check_stages


class Converter(Rigid):
    """Floating-point conversion, ``o = round(i)``, a rigid pipeline.

    Rounds to nearest, ties to even; a value that is too large becomes infinity (NaN in a format without infinity).

    Latency: :attr:`latency` cycles, equal to ``stages``. Throughput: one number per cycle.
    Back-pressure: none; see :class:`~openmxu.arith.Streamed`.

    Deviations from IEEE 754: there are no flags. NaN keeps its sign and the upper bits of its fraction, and
    becomes quiet. With ``subnormals="flush"`` a subnormal operand, and a value that is below the target's
    smallest normal number before rounding, become zeros of their signs.

    Parameters
    ----------
    source, target
        Formats of operand and result.
    subnormals
        ``"flush"`` or ``"ieee"`` (gradual underflow).
    stages
        0: combinational. 1: the output is a register.
    stochastic
        Round at random; only in flush mode.

    Members
    -------
    i : In(source.width)
    i_noise : In(source.fraction_width - target.fraction_width)
        Where it rounds at random: a word that is added to the bits that are cut off, and whose carry rounds up.
    o : Out(target.width)

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """

    CUTS: ClassVar = {0: (), 1: ("rounded",)}

    def __init__(
        self,
        source: FloatFormat,
        target: FloatFormat,
        *,
        subnormals: str = "flush",
        stages: int = 0,
        stochastic: bool = False,
    ) -> None:
        self.source = source
        self.target = target
        self.subnormals = check_subnormals(subnormals)
        self.stages = check_stages(stages, self.CUTS)
        self.stochastic = stochastic
        cut_off = source.fraction_width - target.fraction_width
        if stochastic and (subnormals != "flush" or cut_off < 1):
            raise ValueError("stochastic must be False with gradual underflow, or where no bits are cut off")
        noise = {"i_noise": In(cut_off)} if stochastic else {}
        super().__init__({"i": In(source.width), **noise, "o": Out(target.width)})

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        rounding = "_stochastic" if self.stochastic else ""
        return f"converter_{self.source}_{self.target}{rounding}_{self.subnormals}_s{self.stages}"

    def elaborate(self, platform: object) -> Module:
        """Change the exponent's bias and round; NaN bypasses the rounding."""
        m = Module()
        number = unpack(m, self.i, self.source, self.subnormals, name="number")
        rebias = self.target.bias - self.source.bias
        largest = self.source.exponent_mask - (1 if self.source.has_infinity else 0)
        smallest = 1
        exponent, significand = number.exponent, number.significand
        if self.subnormals == "ieee" and rebias > 0:
            # Subnormal numbers of the source are normal, or less far below it, in the target.
            significand, shift, _ = normalise(m, significand, name="normalised")
            exponent = exponent - shift
            smallest -= self.source.fraction_width
        exponents = range(smallest + rebias, largest + rebias + 1)
        rebiased = Signal(exponent_shape(exponents), name="exponent")
        m.d.comb += rebiased.eq(exponent + rebias)

        bits = round_pack(
            m,
            self.target,
            self.subnormals,
            sign=number.sign,
            exponent=rebiased,
            significand=significand,
            infinite=number.infinite,
            nan=Const(0, 1),
            exponents=exponents,
            noise=self.i_noise if self.stochastic else None,
        )
        result = Mux(number.nan, self._quiet(number.significand[:-1], number.sign), bits)
        m.d.comb += self.o.eq(Pipeline(m, self.CUTS[self.stages]).cut("rounded", result))
        return m

    def _quiet(self, fraction: Value, sign: Value) -> Value:
        """The quiet NaN that keeps ``sign`` and the upper bits of ``fraction``."""
        target = self.target
        if not target.has_infinity:
            return Cat(Const(target.quiet_nan, target.width - 1), sign)
        missing = target.fraction_width - len(fraction)
        kept = Cat(Const(0, missing), fraction) if missing > 0 else fraction[-missing:]
        return Cat(kept[:-1], Const(1, 1), Const(target.exponent_mask, target.exponent_width), sign)
