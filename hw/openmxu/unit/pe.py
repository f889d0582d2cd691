"""The processing element: a multiply-add, and the registers between neighbours.

::

                    i_weight                              i_psum
                       │                                    │
        i_load ──▶ [ shadow ] ──▶ o_weight, to the row      │
                       │          below                     │
        i_swap ──▶ [ active ]                               │
                       │                                    │
                       ▼                                    ▼
    i_activation ─▶[ ]─▶( x )──[ at product ]────────────▶( + )──[ at sum ]──▶ o_psum
                    │
                    └──▶ o_activation, to the column at the right; o_swap, o_load beside it

Invariants: ``active`` takes the shadow weight on the clock edge that registers the activation with the swap mark, so
that this activation is the first to be multiplied with the new weight. The shadow register shows the weight that the
row below loads next, so that the column is a chain that each load mark moves by one row.

Cost: two registers for weights and one for the activation, so that weights load while others are in use; two marks;
29 bits for each stage behind the product, more inside the sum.

With several terms the element stands for as many rows of the array: N activations side by side, N active weights, and N
shadow registers, one below the other, which a load mark moves together. What leaves the last one counts only if the
element below has a load mark, too.
"""

from abc import abstractmethod
from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.arith import DotProductAdd, MultiplyAdd
from openmxu.spec.formats import BF16, FP32, FloatFormat, check_subnormals, pair_name
from openmxu.spec.recoded import is_recoded, port_width
from openmxu.spec.stages import STAGES, check_stages, check_terms, split_stages


class Cell(wiring.Component):
    """The registers between neighbours, around a multiply-add."""

    stages: int
    scaled = False

    def __init__(self, activation: int, weight: int) -> None:
        widths = {"activation": activation, "swap": 1, "load": 1, "weight": weight, "psum": FP32.width}
        ways = (("i", In), ("o", Out))
        super().__init__({f"{way}_{name}": flow(width) for name, width in widths.items() for way, flow in ways})

    @property
    def latency(self) -> int:
        """Cycles from activation to the partial sum that it goes into."""
        return 1 + self.stages

    @property
    def psum_latency(self) -> int:
        """Cycles from partial sum in to partial sum out."""
        return split_stages(self.stages)[1]

    @abstractmethod
    def _arithmetic(self) -> Any:
        """A new multiply-add; if it is scaled, scales are the upper bits of a word."""

    def elaborate(self, platform: object) -> Module:
        """Register the activation and both weights; multiply and add."""
        m = Module()
        m.submodules.multiply_add = multiply_add = self._arithmetic()
        sides = [[multiply_add.i_a], [multiply_add.i_b]]
        if self.scaled:
            sides = [[multiply_add.i_a, multiply_add.i_scale_a], [multiply_add.i_b, multiply_add.i_scale_b]]
        activation = Signal(len(self.i_activation), reset_less=True)
        shadow, active = (Signal(len(Cat(sides[1])), reset_less=True, name=name) for name in ("shadow", "active"))
        m.d.sync += [activation.eq(self.i_activation), self.o_swap.eq(self.i_swap), self.o_load.eq(self.i_load)]
        with m.If(self.i_load):
            m.d.sync += shadow.eq(Cat(self.i_weight, shadow))  # the last weight leaves
        with m.If(self.i_swap):
            m.d.sync += active.eq(shadow)
        m.d.comb += [
            self.o_activation.eq(activation),
            self.o_weight.eq(shadow[-len(self.i_weight) :]),
            Cat(sides[0]).eq(activation),
            Cat(sides[1]).eq(active),
            multiply_add.i_c.eq(self.i_psum),
            self.o_psum.eq(multiply_add.o),
        ]
        return m


class ProcessingElement(Cell):
    """A cell of the weight-stationary array, ``o_psum = i_psum + activation · weight``.

    Multiplies, then adds: two roundings in the sense of the numerics contract, not a fused multiply-add; see
    :class:`~openmxu.arith.MultiplyAdd`. With several terms it adds as many products at once; see
    :class:`~openmxu.arith.DotProductAdd`.
    It is rigid: it never stalls and knows no valid mark. Every output is a register.

    The activation is registered, passed to the right, and multiplied with the active weight a cycle later.
    A swap mark that comes with an activation makes the shadow weight the active one for that activation
    and those that follow. A load mark shifts the weight from above into the shadow register.

    Latency: :attr:`latency` cycles from activation to ``o_psum``, :attr:`psum_latency` from ``i_psum``;
    one cycle from ``i_activation``, ``i_swap``, ``i_load`` to their outputs and from
    ``i_weight`` under a load mark to ``o_weight``. Throughput: one multiply-add per cycle.
    Back-pressure: none.

    Parameters
    ----------
    operand
        Format of activations and weights. Partial sums are fp32.
    weight
        Format of weights, if it is another one.
    subnormals
        ``"flush"`` or ``"ieee"``.
    stages
        Registers from product to sum, 1 to 7; see :func:`~openmxu.spec.stages.split_stages`. 1: a combinational
        multiply-add and its output register.
    terms
        Products that are added at once: 1, 2, 4 or 8.

    Members
    -------
    i_activation, o_activation : terms · width
        An operand has its format's bits, or with gradual underflow more: it is recoded, see
        :func:`~openmxu.spec.recoded.is_recoded`.
    i_swap, o_swap, i_load, o_load : 1
    i_weight, o_weight : width
        The chain of shadow registers, from above to below.
    i_psum, o_psum : 32
        The incoming sum must be +0 or another element's output: so any NaN on it is the canonical one.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain.
    """

    def __init__(
        self,
        operand: FloatFormat = BF16,
        *,
        weight: FloatFormat | None = None,
        subnormals: str = "flush",
        stages: int = 1,
        terms: int = 1,
    ) -> None:
        self.operand = operand
        self.formats = (operand, weight or operand)
        self.subnormals = check_subnormals(subnormals)
        self.stages = check_stages(stages, STAGES)
        self.terms = check_terms(terms, subnormals)
        self.recoded = is_recoded(subnormals, *self.formats)
        activation, width = (port_width(fmt, subnormals, recoded=self.recoded) for fmt in self.formats)
        super().__init__(terms * activation, width)

    @property
    def module_name(self) -> str:
        """Name of the exported module."""
        terms = f"_t{self.terms}" if self.terms > 1 else ""
        return f"pe_{pair_name(*self.formats)}_{self.subnormals}{terms}_s{self.stages}"

    def _arithmetic(self) -> MultiplyAdd | DotProductAdd:
        """A new multiply-add."""
        operand, weight = self.formats
        options: dict[str, Any] = {"weight": weight, "subnormals": self.subnormals, "stages": self.stages}
        if self.terms > 1:
            return DotProductAdd(operand, terms=self.terms, **options)
        return MultiplyAdd(operand, recoded=self.recoded, **options)
