"""The parameters of a unit, and the latencies that follow from them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from openmxu.spec.formats import BF16, FP32, FloatFormat, check_subnormals, pair_name
from openmxu.spec.integers import check_integer
from openmxu.spec.recoded import is_recoded, port_width
from openmxu.spec.stages import STAGES, check_stages, check_terms, split_stages

MOST_SIDE = 1 << 16
"""Rows, or columns, of an array: 256 times those of the first TPU."""

MOST_CELLS = 1 << 24
"""Processing elements of an array. Simulating that many takes some 4 GB of memory."""


@dataclass(frozen=True)
class MxuConfig:
    """The parameters of a unit. Validated and frozen.

    Raises
    ------
    TypeError, ValueError
        A parameter is outside its domain; the text names it, the domain and the value.
    """

    rows: int = 128
    columns: int = 128
    """Size of the array, up to :data:`MOST_SIDE` each and :data:`MOST_CELLS` processing elements: R operands are
    summed per pass, C columns of results computed."""
    stages: int = 1
    """Pipeline registers of a processing element, see :class:`~openmxu.unit.pe.ProcessingElement`."""
    operand: FloatFormat = BF16
    """Format of the numbers that are multiplied; of activations alone where ``weight`` is another. Sums are fp32."""
    source: FloatFormat = FP32
    """Format of the words on the activation and weight streams: fp32, which is converted at the edge, or the operand
    format itself."""
    subnormals: str = "flush"
    """``"flush"`` or ``"ieee"``."""
    depth: int = 512
    """Rows of the accumulator bank, a power of two from 2 to 65536: the most activation rows that a tile may have."""
    splitter: bool = False
    """Whether beats name the :class:`~openmxu.spec.passes.Part` of their fp32 words that is multiplied, so that fp32
    products in several passes need no work elsewhere. Otherwise the sender splits."""
    result: FloatFormat = FP32
    """Format of the words on the result stream: fp32, or the operand format, into which sums are converted."""
    status: bool = False
    """Whether the unit has counters and an error code, see :class:`~openmxu.unit.status.Status`."""
    terms: int = 1
    """Products that a processing element adds at once, with one rounding: 1, 2, 4 or 8, a divisor of ``rows``. With 1
    each product and each sum is rounded on its own; with more, the contract's "Several terms" says what is added."""
    weight: FloatFormat | None = None
    """Format of weights where it is not ``operand``; ``None`` where it is. Two formats need fp32 on both streams."""

    def __post_init__(self) -> None:
        for noun in ("rows", "columns", "depth"):
            object.__setattr__(self, noun, check_integer(noun, getattr(self, noun), 1, MOST_SIDE))
        if self.rows * self.columns > MOST_CELLS:
            raise ValueError(f"rows times columns must be at most {MOST_CELLS}, not {self.rows} times {self.columns}")
        if self.depth not in {1 << n for n in range(1, 17)}:
            raise ValueError(f"depth must be a power of two from 2 to 65536, not {self.depth!r}")
        if self.weight == self.operand:  # equal units are equal
            object.__setattr__(self, "weight", None)
        for noun in ("operand", "source", "result", *(["weight"] if self.weight is not None else [])):
            if not isinstance(getattr(self, noun), FloatFormat):
                raise TypeError(f"{noun} must be a FloatFormat, not {getattr(self, noun)!r}")
        if self.source not in (FP32, self.operand):
            raise ValueError(f"source must be fp32 or the operand format {self.operand}, not {self.source}")
        if self.weight and self.source != FP32:
            raise ValueError(f"source must be fp32 with weights in another format, {self.weight}, not {self.source}")
        if self.result not in (FP32, self.operand):
            raise ValueError(f"result must be fp32 or the operand format {self.operand}, not {self.result}")
        for noun in ("splitter", "status"):
            if not isinstance(getattr(self, noun), bool):
                raise TypeError(f"{noun} must be True or False, not {getattr(self, noun)!r}")
        if self.splitter and not self.has_passes:
            raise ValueError(
                f"splitter must be False unless fp32 is converted into bf16, not {self.source} into {self.operands}"
            )
        check_subnormals(self.subnormals)
        check_stages(self.stages, STAGES)
        object.__setattr__(self, "terms", check_terms(self.terms, self.subnormals))
        if self.rows % self.terms:
            raise ValueError(f"rows must be a multiple of terms={self.terms}, not {self.rows}")

    def __repr__(self) -> str:
        """Like a dataclass's, but omits ``weight=None``, so that cache keys of one-format units stay the same."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return f"MxuConfig({', '.join(f'{name}={value!r}' for name, value in values.items() if value is not None)})"

    @classmethod
    def of_dict(cls, plain: Mapping[str, Any]) -> "MxuConfig":
        """The configuration whose :func:`dataclasses.asdict` is ``plain``, also by way of JSON."""
        values: dict[str, Any] = {
            name: FloatFormat(**value) if isinstance(value, Mapping) else value for name, value in plain.items()
        }
        return cls(**values)

    @property
    def has_passes(self) -> bool:
        """Whether fp32 is converted into bf16, so that several passes over parts of the operands make sense."""
        return (self.source, self.operand, self.weight) == (FP32, BF16, None)

    @property
    def weight_format(self) -> FloatFormat:
        """Format of weights."""
        return self.weight or self.operand

    @property
    def operands(self) -> str:
        """The formats of activations and weights, for names and messages."""
        return pair_name(self.operand, self.weight_format)

    @property
    def recoded(self) -> bool:
        """Whether operands behind the edge are recoded words."""
        return is_recoded(self.subnormals, self.operand, self.weight_format)

    @property
    def word_width(self) -> int:
        """Bits of an activation behind the edge."""
        return port_width(self.operand, self.subnormals, recoded=self.recoded)

    @property
    def weight_width(self) -> int:
        """Bits of a weight behind the edge."""
        return port_width(self.weight_format, self.subnormals, recoded=self.recoded)

    @property
    def element_rows(self) -> int:
        """Rows of processing elements, each of which takes ``terms`` operands of a beat."""
        return self.rows // self.terms

    @property
    def row_step(self) -> int:
        """Cycles by which each row of processing elements is later than the row above: the adder's latency."""
        return split_stages(self.stages)[1]

    @property
    def array_latency(self) -> int:
        """Cycles from the first row's activation at the left edge to column 0's sum at the bottom."""
        return 1 + self.stages + (self.element_rows - 1) * self.row_step

    @property
    def write_latency(self) -> int:
        """Cycles from a sum's arrival in the accumulator bank to its write: a register, and the adder's."""
        return 1 + self.row_step

    @property
    def row_latency(self) -> int:
        """Cycles after which a row of the accumulator bank may be added to again.

        It is read a cycle before the new sum arrives, and can be read from the cycle after its write on.
        """
        return self.write_latency + 2

    @property
    def latency(self) -> int:
        """Cycles from an activation beat taken to its result beat offered, if nothing waits."""
        edge, skew, write, read = 2, 1, 1, 1
        return edge + skew + self.array_latency + self.columns - 1 + self.write_latency + write + read

    @property
    def weights_step(self) -> int:
        """Cycles from a tile's start to the next one's that its weights need: one for each beat of them, and the last
        ``terms`` beats must wait until the swap mark has passed the last row.
        """
        return max(self.rows, (self.element_rows - 1) * self.row_step + self.terms)

    @property
    def shortest_tile(self) -> int:
        """Activation beats from which on tiles that are added up follow one another without a bubble.

        A row of weights must have been passed by the swap mark before it is loaded again, and a sum must be
        written before it is added to.
        """
        return max(self.weights_step, self.row_latency)

    @property
    def cell_name(self) -> str:
        """The part of module names that describes the processing element."""
        terms = f"_t{self.terms}" if self.terms > 1 else ""
        return f"{self.operands}_{self.subnormals}{terms}_s{self.stages}"
