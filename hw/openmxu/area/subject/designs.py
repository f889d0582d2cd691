"""The catalog's designs: measured whole if they are small, else as sums of measured parts."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.area.subject.points import PROCESSING_ELEMENT, Kept, Point
from openmxu.catalog import Design
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import FP32, FloatFormat
from openmxu.unit.accumulator import AccumulatorBank, Control
from openmxu.unit.admission import Admission
from openmxu.unit.array import processing_element
from openmxu.unit.edge import Edge

MEASURED_CELLS = 64
"""Most processing elements of a design that is measured whole."""

DEVIATION = 0.01
"""Bound on the deviation of the sum of :func:`parts` from the unit measured whole; a test holds it on gates of
our own library."""


@dataclass(frozen=True)
class Part:
    """``count`` equal pieces of a design, ``point`` being one of them."""

    count: int
    point: Point


def is_measured(design: Design) -> bool:
    """Whether the design is measured whole."""
    return design.cells <= MEASURED_CELLS


def whole(design: Design) -> Point:
    """The design as one point."""
    domain = design.domain
    # A splitter's input format is not an option.
    name = domain.get("operand", domain.get("source", None if "width" in domain else FP32.name))
    fmt = FloatFormat.parse(name) if name else None
    width = fmt.significand_width if fmt else domain["width"]
    return Point(design.name, width, fmt, design.name, Kept(design.build, design.name, (design.family, domain)), domain)


def parts(design: Design) -> list[Part]:
    """The parts of an array or a unit, each part at its real size, and all the registers between them.

    That is one processing element R·C / terms times; in a unit also both edges with their converters, the admission
    and the accumulator bank with its columns, once each, and the shift registers of skew and of control one
    bit at a time. The sum is exact except for logic saved where parts meet: registers of the admission and of
    control that hold the same. The rest of the deviation
    is ABC's: it maps equal modules a little differently, depending on their names and the cells around them.
    """
    config = _config(design)
    cell = _point(PROCESSING_ELEMENT, config, lambda: processing_element(config))
    pieces = [Part(config.element_rows * config.columns, cell)]
    if design.family == "array":
        return pieces
    once: dict[str, Callable[[], Any]] = {
        "weight edge": lambda: Edge(config, config.columns),
        "activation edge": lambda: Edge(config, config.rows),
        "admission": lambda: Admission(config),
        "accumulator bank": lambda: AccumulatorBank(config),
    }
    pieces += [
        Part(1, _point(f"{name} {config.rows} x {config.columns}", config, make, size=True))
        for name, make in once.items()
    ]
    skew, control = register_bits(config)
    return [
        *pieces,
        Part(skew, _point("bit of skew", config, lambda: _Register(reset_less=True))),
        Part(control, _point("bit of control", config, lambda: _Register(reset_less=False))),
    ]


def register_bits(config: MxuConfig) -> tuple[int, int]:
    """The bits in a unit's shift registers of skew, and in those of control."""
    # The lanes' delays as in openmxu.unit.mxu: c cycles for column c, 1 + r · row_step for the elements' row r.
    rows = sum(1 + row * config.row_step for row in range(config.element_rows))
    skew = sum(range(config.columns)) * config.weight_width + config.terms * rows * config.word_width
    return skew, Control(config.depth).size * (1 + config.array_latency)


class _Register(wiring.Component):
    """A bit, one cycle later."""

    def __init__(self, *, reset_less: bool) -> None:
        self.reset_less = reset_less
        super().__init__({"i": In(1), "o": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """One register."""
        m = Module()
        held = Signal(reset_less=self.reset_less)
        m.d.sync += held.eq(self.i)
        m.d.comb += self.o.eq(held)
        return m


def _config(design: Design) -> MxuConfig:
    """The parameters of an array or a unit."""
    domain = design.domain
    for name in {"operand", "weight", "source", "result"} & domain.keys():
        domain[name] = FloatFormat.parse(domain[name])
    return MxuConfig(**{field.name: domain[field.name] for field in fields(MxuConfig) if field.name in domain})


def _point(part: str, config: MxuConfig, make: Callable[[], Any], *, size: bool = False) -> Point:
    """A part, which may depend on the size of the unit; equal parts of two units have the same top module."""
    options: dict[str, str | int] = {"subnormals": config.subnormals, "stages": config.stages}
    if config.terms > 1:
        options["terms"] = config.terms
    if size:
        options |= {"rows": config.rows, "columns": config.columns, "source": str(config.source), "depth": config.depth}
    top = "_".join(map(str, [part, config.operand, *options.values()])).replace(" ", "_")
    terms = config.terms if part == PROCESSING_ELEMENT else 1
    kept = Kept(make, top, (part, config))
    return Point(part, config.operand.significand_width, config.operand, top, kept, options, terms=terms)
