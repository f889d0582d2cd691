"""Named design points: one list for export, test benches, area reports and documentation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
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
from openmxu.spec.formats import FP32, FloatFormat
from openmxu.unit.array import SystolicArray
from openmxu.unit.axi import AxiMxu, axi_config
from openmxu.unit.block_element import BlockElement
from openmxu.unit.mxu import Mxu
from openmxu.unit.pe import ProcessingElement

_FORMATS = ("operand", "result", "source", "target", "weight")
"""Parameters that are formats, given by their names."""


@dataclass(frozen=True)
class Family:
    """A kind of component."""

    make: Callable[..., Any]
    """Makes one of all parameters."""
    defaults: Mapping[str, Any]
    """All parameters with their defaults; ``None``: the value of another parameter."""

    def build(self, **parameters: Any) -> Any:
        """Return a new component; formats are given by their names."""
        values = {**self.defaults, **parameters}
        named = {name: values[name] for name in _FORMATS if values.get(name) is not None}
        return self.make(**values | {name: FloatFormat.parse(text, name) for name, text in named.items()})


def _adder(operand: FloatFormat, **others: Any) -> Adder:
    return Adder(operand, **others)


def _streamed(make: Callable[..., Any], **parameters: Any) -> Streamed:
    return Streamed(make(**parameters))


def _array(operand: FloatFormat, weight: FloatFormat | None, **others: Any) -> SystolicArray:
    source = operand if weight is None else FP32
    return SystolicArray(MxuConfig(operand=operand, source=source, weight=weight, **others))


def _mxu(bus: str, **parameters: Any) -> Mxu | AxiMxu:
    config = MxuConfig(**parameters)
    if bus not in ("none", "axi"):
        raise ValueError(f"bus must be 'none' or 'axi', not {bus!r}")
    # Checked first: Amaranth warns of components that are begun and never used.
    return AxiMxu(axi_config(config)) if bus == "axi" else Mxu(config)


def _accelerator(bus: str, **parameters: Any) -> BusAccelerator:
    return BusAccelerator(config_of(**parameters), bus)


_SIZE = {"rows": 128, "columns": 128, "stages": 1}
_BF16_TO_FP32 = {"operand": "bf16", "result": "fp32"}
_FP32_TO_BF16 = {"source": "fp32", "target": "bf16"}
_COMBINATIONAL = {"subnormals": "flush", "stages": 0}
_ONE_STAGE = {"subnormals": "flush", "stages": 1}

FAMILIES: Mapping[str, Family] = {
    "product": Family(SignificandProduct, {"width": 8}),
    "multiplier": Family(Multiplier, {**_BF16_TO_FP32, **_COMBINATIONAL, "weight": None}),
    "adder": Family(_adder, {"operand": "fp32", **_COMBINATIONAL}),
    "multiply_add": Family(MultiplyAdd, {**_BF16_TO_FP32, **_COMBINATIONAL, "weight": None}),
    "dot_product_add": Family(DotProductAdd, {**_BF16_TO_FP32, "terms": 4, **_COMBINATIONAL, "weight": None}),
    "converter": Family(Converter, {**_FP32_TO_BF16, **_COMBINATIONAL}),
    "splitter": Family(Splitter, {"subnormals": "flush"}),
    "stream_multiplier": Family(partial(_streamed, Multiplier), {**_BF16_TO_FP32, **_ONE_STAGE, "weight": None}),
    "stream_adder": Family(partial(_streamed, _adder), {"operand": "fp32", **_ONE_STAGE}),
    "stream_converter": Family(partial(_streamed, Converter), {**_FP32_TO_BF16, **_ONE_STAGE}),
    "pe": Family(ProcessingElement, {"operand": "bf16", **_ONE_STAGE, "terms": 1, "weight": None}),
    "block_element": Family(BlockElement, {"block": "int8", "terms": 4, "stages": 1}),
    "array": Family(_array, {**_SIZE, "operand": "bf16", "subnormals": "flush", "terms": 1, "weight": None}),
    "mxu": Family(
        _mxu,
        {
            **_SIZE,
            "operand": "bf16",
            "source": "fp32",
            "result": "fp32",
            "subnormals": "flush",
            "depth": 512,
            "splitter": False,
            "status": False,
            "terms": 1,
            "weight": None,
            "bus": "none",
        },
    ),
    "accelerator": Family(
        _accelerator,
        {
            "rows": 4,
            "columns": 4,
            "stages": 4,
            "depth": 256,
            "scratchpad": "64K",
            "weights": "64K",
            "program": 4096,
            "beat": 64,
            "bus": "axi",
        },
    ),
}
"""The kinds of components."""


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
    def defaults(self) -> Mapping[str, Any]:
        """All parameters of its kind, see :class:`Family`."""
        return FAMILIES[self.family].defaults

    @property
    def domain(self) -> dict[str, Any]:
        """All parameters that have values, with these."""
        return {name: value for name, value in {**self.defaults, **self.parameters}.items() if value is not None}

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
        return FAMILIES[self.family].build(**(self.domain | overrides))

    @property
    def cells(self) -> int:
        """Processing elements in it; R·C / terms of an array or a unit, 1 of an element, else 0."""
        domain = {"terms": 1, **self.domain}
        if "rows" in domain:
            return int(domain["rows"] * domain["columns"] // domain["terms"])
        return int(self.family in ("pe", "block_element"))


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

BLOCK_ELEMENT = Design("block_element", "block_element", "processing element of int8, MX numbers or NVFP4, four terms")
"""An element to compare with, of which no unit is built; area reports measure it beside those of the unit."""

EXPORTED = {**CATALOG, **{design.name: design for design in (BLOCK_ELEMENT, ACCELERATOR)}}
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
