"""Named design points: one list for export, test benches, area reports and documentation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

from openmxu.accelerator.bus.attached import BusAccelerator
from openmxu.arith import (
    Adder,
    Converter,
    DotProductAdd,
    Multiplier,
    MultiplyAdd,
    SignificandProduct,
    Splitter,
    Streamed,
)
from openmxu.spec.accelerator import config_of
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FloatFormat
from openmxu.unit.array import SystolicArray
from openmxu.unit.axi import AxiMxu, axi_config
from openmxu.unit.mxu import Mxu
from openmxu.unit.pe import ProcessingElement


def _product(width: int = 8) -> SignificandProduct:
    return SignificandProduct(width)


def _weight(name: str | None) -> FloatFormat | None:
    """The format of weights, if it has a name of its own."""
    return None if name is None else FloatFormat.parse(name, "weight")


def _multiplier(
    operand: str = "bf16", result: str = "fp32", subnormals: str = "flush", stages: int = 0, weight: str | None = None
) -> Multiplier:
    formats = FloatFormat.parse(operand, "operand"), FloatFormat.parse(result, "result")
    return Multiplier(*formats, weight=_weight(weight), subnormals=subnormals, stages=stages)


def _adder(operand: str = "fp32", subnormals: str = "flush", stages: int = 0) -> Adder:
    return Adder(FloatFormat.parse(operand, "operand"), subnormals=subnormals, stages=stages)


def _multiply_add(
    operand: str = "bf16", result: str = "fp32", subnormals: str = "flush", stages: int = 0, weight: str | None = None
) -> MultiplyAdd:
    formats = FloatFormat.parse(operand, "operand"), FloatFormat.parse(result, "result")
    return MultiplyAdd(*formats, weight=_weight(weight), subnormals=subnormals, stages=stages)


def _dot_product_add(
    operand: str = "bf16",
    result: str = "fp32",
    terms: int = 4,
    subnormals: str = "flush",
    stages: int = 0,
    weight: str | None = None,
) -> DotProductAdd:
    formats = FloatFormat.parse(operand, "operand"), FloatFormat.parse(result, "result")
    return DotProductAdd(*formats, weight=_weight(weight), terms=terms, subnormals=subnormals, stages=stages)


def _converter(source: str = "fp32", target: str = "bf16", subnormals: str = "flush", stages: int = 0) -> Converter:
    formats = FloatFormat.parse(source, "source"), FloatFormat.parse(target, "target")
    return Converter(*formats, subnormals=subnormals, stages=stages)


def _splitter(subnormals: str = "flush") -> Splitter:
    return Splitter(subnormals=subnormals)


def _stream_multiplier(
    operand: str = "bf16", result: str = "fp32", subnormals: str = "flush", stages: int = 1, weight: str | None = None
) -> Streamed:
    return Streamed(_multiplier(operand, result, subnormals, stages, weight))


def _stream_adder(operand: str = "fp32", subnormals: str = "flush", stages: int = 1) -> Streamed:
    return Streamed(_adder(operand, subnormals, stages))


def _stream_converter(
    source: str = "fp32", target: str = "bf16", subnormals: str = "flush", stages: int = 1
) -> Streamed:
    return Streamed(_converter(source, target, subnormals, stages))


def _pe(
    operand: str = "bf16", subnormals: str = "flush", stages: int = 1, terms: int = 1, weight: str | None = None
) -> ProcessingElement:
    fmt = FloatFormat.parse(operand, "operand")
    return ProcessingElement(fmt, weight=_weight(weight), subnormals=subnormals, stages=stages, terms=terms)


def _config(
    rows: int, columns: int, stages: int, operand: str, source: str, *, weight: str | None, **options: Any
) -> MxuConfig:
    return MxuConfig(
        rows=rows,
        columns=columns,
        stages=stages,
        operand=FloatFormat.parse(operand, "operand"),
        source=FloatFormat.parse(source, "source"),
        weight=_weight(weight),
        **options,
    )


def _array(
    rows: int = 128,
    columns: int = 128,
    stages: int = 1,
    operand: str = "bf16",
    subnormals: str = "flush",
    terms: int = 1,
    *,
    weight: str | None = None,
) -> SystolicArray:
    formats = operand, operand if weight is None else "fp32"
    return SystolicArray(_config(rows, columns, stages, *formats, weight=weight, subnormals=subnormals, terms=terms))


def _mxu(
    *,
    rows: int = 128,
    columns: int = 128,
    stages: int = 1,
    operand: str = "bf16",
    source: str = "fp32",
    result: str = "fp32",
    subnormals: str = "flush",
    depth: int = 512,
    splitter: bool = False,
    status: bool = False,
    terms: int = 1,
    weight: str | None = None,
    bus: str = "none",
) -> Mxu | AxiMxu:
    config = _config(
        rows,
        columns,
        stages,
        operand,
        source,
        subnormals=subnormals,
        depth=depth,
        result=FloatFormat.parse(result, "result"),
        splitter=splitter,
        status=status,
        terms=terms,
        weight=weight,
    )
    if bus not in ("none", "axi"):
        raise ValueError(f"bus must be 'none' or 'axi', not {bus!r}")
    # Checked first: Amaranth warns of components that are begun and never used.
    return AxiMxu(axi_config(config)) if bus == "axi" else Mxu(config)


def _accelerator(
    *,
    rows: int = 4,
    columns: int = 4,
    stages: int = 4,
    depth: int = 256,
    scratchpad: str = "64K",
    weights: str = "64K",
    program: int = 4096,
    beat: int = 64,
    bus: str = "axi",
) -> BusAccelerator:
    config = config_of(rows, columns, stages, depth, scratchpad, weights, program=program, beat=beat)
    return BusAccelerator(config, bus)


FAMILIES: dict[str, Callable[..., Any]] = {
    "product": _product,
    "multiplier": _multiplier,
    "adder": _adder,
    "multiply_add": _multiply_add,
    "dot_product_add": _dot_product_add,
    "converter": _converter,
    "splitter": _splitter,
    "stream_multiplier": _stream_multiplier,
    "stream_adder": _stream_adder,
    "stream_converter": _stream_converter,
    "pe": _pe,
    "array": _array,
    "mxu": _mxu,
    "accelerator": _accelerator,
}
"""Functions that make a component of each kind, with its default parameters."""


@dataclass(frozen=True)
class Design:
    """A named design point."""

    name: str
    """Name of the design in commands, files and reports."""
    family: str
    """Its kind: a key of :data:`FAMILIES`."""
    summary: str
    """One line for people."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that differ from the family's defaults."""

    @property
    def defaults(self) -> dict[str, Any]:
        """All parameters of its kind with their defaults; ``None``: that of another parameter."""
        return {name: p.default for name, p in signature(FAMILIES[self.family]).parameters.items()}

    @property
    def domain(self) -> dict[str, Any]:
        """All parameters that have values, with these."""
        return {name: value for name, value in (self.defaults | dict(self.parameters)).items() if value is not None}

    def build(self, **overrides: Any) -> Any:
        """A new component, with ``overrides`` of some parameters.

        Raises
        ------
        TypeError, ValueError
            The design has no such parameter, or its value is outside the domain.
        """
        for name in overrides:
            if name not in self.defaults:
                raise ValueError(f"{self.name} has no parameter {name!r}; it has {', '.join(self.defaults)}")
        return FAMILIES[self.family](**(self.domain | overrides))

    @property
    def cells(self) -> int:
        """Processing elements in it; R·C / terms of an array or a unit, 1 of a processing element, else 0."""
        domain = {"terms": 1, **self.domain}
        return domain["rows"] * domain["columns"] // domain["terms"] if "rows" in domain else int(self.family == "pe")


CATALOG: dict[str, Design] = {
    design.name: design
    for design in (
        Design("product", "product", "significand product of two bf16 numbers, 8 x 8 bits"),
        Design("multiplier", "multiplier", "bf16 x bf16 -> fp32, exact: the multiplier of the unit"),
        Design("multiplier_ieee", "multiplier", "bf16 x bf16 -> fp32 with gradual underflow", {"subnormals": "ieee"}),
        Design("multiplier_bf16", "multiplier", "bf16 x bf16 -> bf16", {"result": "bf16"}),
        Design("multiplier_fp16", "multiplier", "fp16 x fp16 -> fp16", {"operand": "fp16", "result": "fp16"}),
        Design("multiplier_fp32", "multiplier", "fp32 x fp32 -> fp32", {"operand": "fp32"}),
        Design("adder", "adder", "fp32 + fp32"),
        Design("adder_ieee", "adder", "fp32 + fp32 with gradual underflow", {"subnormals": "ieee"}),
        Design("adder_pipelined", "adder", "fp32 + fp32 in five stages", {"stages": 5}),
        Design("converter", "converter", "fp32 -> bf16"),
        Design("converter_ieee", "converter", "fp32 -> bf16 with gradual underflow", {"subnormals": "ieee"}),
        Design("splitter", "splitter", "fp32 -> bf16, the number or a part of it"),
        Design(
            "splitter_ieee",
            "splitter",
            "fp32 -> bf16, the number or a part of it, with gradual underflow",
            {"subnormals": "ieee"},
        ),
        Design("stream_multiplier", "stream_multiplier", "bf16 x bf16 -> fp32 between streams"),
        Design("stream_adder", "stream_adder", "fp32 + fp32 between streams, in five stages", {"stages": 5}),
        Design("stream_converter", "stream_converter", "fp32 -> bf16 between streams"),
        Design("pe", "pe", "processing element, multiply-add in one stage"),
        Design("pe_ieee", "pe", "processing element with gradual underflow", {"subnormals": "ieee"}),
        Design("pe_pipelined", "pe", "processing element in six stages", {"stages": 6}),
        Design("pe_4_terms", "pe", "processing element of four terms in four stages", {"stages": 4, "terms": 4}),
        Design("array_4x4", "array", "systolic array, 4 x 4", {"rows": 4, "columns": 4}),
        Design("mxu_2x2", "mxu", "matrix unit, 2 x 2", {"rows": 2, "columns": 2}),
        Design(
            "mxu_2x2_splitter", "mxu", "matrix unit, 2 x 2, with splitters", {"rows": 2, "columns": 2, "splitter": True}
        ),
        Design(
            "mxu_2x2_bf16",
            "mxu",
            "matrix unit, 2 x 2, with bf16 words on all streams",
            {"rows": 2, "columns": 2, "source": "bf16", "result": "bf16"},
        ),
        Design(
            "mxu_2x2_status",
            "mxu",
            "matrix unit, 2 x 2, with counters and an error code",
            {"rows": 2, "columns": 2, "status": True},
        ),
        Design(
            "mxu_2x2_axi",
            "mxu",
            "matrix unit, 2 x 2, on AXI4-Stream and AXI4-Lite",
            {"rows": 2, "columns": 2, "bus": "axi"},
        ),
        Design("mxu_4x4", "mxu", "matrix unit, 4 x 4", {"rows": 4, "columns": 4}),
        Design(
            "mxu_4x4_ieee",
            "mxu",
            "matrix unit, 4 x 4, with gradual underflow",
            {"rows": 4, "columns": 4, "subnormals": "ieee"},
        ),
        Design("mxu_4x4_pipelined", "mxu", "matrix unit, 4 x 4, in six stages", {"rows": 4, "columns": 4, "stages": 6}),
        Design("mxu_8x8", "mxu", "matrix unit, 8 x 8", {"rows": 8, "columns": 8}),
        Design("mxu_16x16", "mxu", "matrix unit, 16 x 16", {"rows": 16, "columns": 16}),
        Design("mxu", "mxu", "matrix unit at a TPU's size, 128 x 128"),
    )
}
"""The named designs, small ones first."""

ACCELERATOR = Design("accelerator", "accelerator", "accelerator, 4 x 4, on AXI4 or Wishbone")
"""A system around a unit. It is exported, but not measured: most of it are memories."""

EXPORTED = {**CATALOG, ACCELERATOR.name: ACCELERATOR}
"""Designs that can be written as Verilog."""


def build(name: str, **overrides: Any) -> Any:
    """A new component of the design called ``name``; see :meth:`Design.build`.

    >>> from openmxu.catalog import build
    >>> from openmxu.export.verilog import to_verilog
    >>> "module mxu(" in to_verilog(build("mxu", rows=2, columns=1))
    True

    Raises
    ------
    TypeError, ValueError
        There is no such design or parameter, or its value is outside the domain.
    """
    if name not in EXPORTED:
        raise ValueError(f"design must be one of {', '.join(EXPORTED)}, not {name!r}")
    return EXPORTED[name].build(**overrides)
