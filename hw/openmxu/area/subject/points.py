# amaranth: UnusedElaboratable=no
# (a component that refuses its parameters goes unused)
"""Design points: what an area report measures."""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

from openmxu import SOURCES
from openmxu.arith import Adder, Converter, Multiplier, SignificandProduct
from openmxu.export.verilog import to_rtlil
from openmxu.pages.tables import counted
from openmxu.runtime import cache
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FORMATS, FP8_E4M3, FP8_E5M2, FP16, FP32, TF32, FloatFormat
from openmxu.spec.forms import AREA
from openmxu.unit.accumulator import AccumulatorBank
from openmxu.unit.array import SystolicArray
from openmxu.unit.mxu import Mxu
from openmxu.unit.pe import ProcessingElement


class Part(StrEnum):
    """A part of ours that can be measured; its value is its name in reports."""

    PRODUCT = "significand product"
    MULTIPLIER = "multiplier"
    MULTIPLIER_TO_FP32 = "multiplier to fp32"
    ADDER = "adder"
    CONVERTER = "converter from fp32"
    PROCESSING_ELEMENT = "processing element"
    ARRAY = "array"
    BANK = "accumulator bank"
    UNIT = "unit"


PARTS = tuple(Part)
PRODUCT, MULTIPLIER, MULTIPLIER_TO_FP32, ADDER, CONVERTER, PROCESSING_ELEMENT, ARRAY, BANK, UNIT = PARTS

_SIZED = (ARRAY, BANK, UNIT)

_WITH_TERMS = (PROCESSING_ELEMENT, ARRAY, UNIT)
"""The parts whose elements can add several terms."""

PART_NAMES = {
    "product": PRODUCT,
    "multiplier": MULTIPLIER,
    "multiplier_to_fp32": MULTIPLIER_TO_FP32,
    "adder": ADDER,
    "converter": CONVERTER,
    "pe": PROCESSING_ELEMENT,
    "array": ARRAY,
    "bank": BANK,
    "mxu": UNIT,
}
"""Names of the parts for ``openmxu area --part``: those of the catalog, where it has them."""

SWEEP = (3, 4, 6, 8, 11, 14, 17, 20, 24)
"""Significand widths of the sweep; among them those of bf16 (8), tf32 and fp16 (11), and fp32 (24)."""

_CLAIMED_WIDTHS = (BF16.significand_width, FP16.significand_width, FP32.significand_width)

SIDE = 4
"""Rows and columns of the arrays, banks and units that are compared."""


@dataclass(frozen=True)
class Tie:
    """Bits that are held at a value before synthesis, to measure the design without the logic behind them."""

    field: str
    """A field of a structure, with the submodules that it is in: ``multiply_add.normalised_sum.significand``."""
    value: int = 0
    """The value at which its bits are held."""
    bits: int | None = None
    """The number of bits, from the lowest; all by default."""

    def command(self, rtlil: str) -> str:
        """The Yosys command, for a flat design."""
        *path, wire, member = ("." + self.field).split(".")
        slices = set(
            re.findall(
                rf"^connect \\{wire}\.{member} \\{wire} \[(\d+)(?::(\d+))?\]$", rtlil.replace("  ", ""), re.MULTILINE
            )
        )
        if len(slices) != 1:
            raise ValueError(f"field must be one of the design's, once, not {self.field!r}")
        high, low = slices.pop()
        start = int(low or high)
        width = self.bits or int(high) - start + 1
        name = ".".join([*path[1:], wire])
        return f"connect -nomap -set \\{name}[{start + width - 1}:{start}] {width}'b{self.value:0{width}b}"


class Source(Protocol):
    """RTLIL in the forms of arithmetic."""

    def __call__(self, form: str) -> str:
        """The text in one of :data:`~openmxu.spec.forms.FORMS`."""
        ...


@dataclass(frozen=True)
class Text:
    """RTLIL with one form, such as that of a foreign design."""

    text: str

    def __call__(self, form: str) -> str:
        return self.text


@dataclass(frozen=True)
class Kept:
    """The RTLIL of a component of this package, cached: making it takes longer than looking up its measurement."""

    make: Callable[[], Any]
    """Makes the component."""
    top: str
    """Name of its top module."""
    what: object
    """Everything that the component depends on."""

    def __call__(self, form: str) -> str:
        def text() -> bytes:
            return to_rtlil(self.make(), name=self.top, form=form).encode()

        return cache.fetch_result(SOURCES, text, "rtlil", self.top, repr(self.what), form).decode()


@dataclass(frozen=True)
class Point:
    """One design to measure."""

    part: str
    """A :class:`Part`, or the name of another design."""
    width: int
    """Significand width of its operands."""
    format: FloatFormat | None
    """Format of its operands; none for a bare product of significands."""
    top: str
    """Name of its top module."""
    source: Source = field(repr=False)
    options: Mapping[str, str | int] = field(default_factory=dict)
    """The other parameters that it was built with, by name."""
    variant: str = ""
    """Difference from the default design, in words; empty for the default."""
    size: str = ""
    """Rows and columns, as in ``4x4``, where it has any."""
    ties: tuple[Tie, ...] = ()
    """Bits of it that are held at a value."""
    scope: str = "everywhere"
    """Where it is measured: ``"everywhere"``, on gates with the recipe ``"area"`` only or, as ``"timed"``, with
    ``"area"``, ``"sized"`` and ``"speed"``, or on ``"fpga"`` only."""
    order: int = 0
    """Order in which ABC gets its inputs and outputs: 0 for the original one, else the seed of a random one.
    The function is the same; see :func:`openmxu.area.target.targets.in_order`."""
    terms: int = 1
    """Multiply-adds of an element in a cycle."""

    @property
    def kind(self) -> str:
        """The part with its terms in words: elements of several terms are compared with each other alone."""
        return kind(self.part, self.terms)

    @property
    def name(self) -> str:
        """Part, operands and variant in words."""
        words = " ".join(filter(None, [self.kind, str(self.format or f"{self.width} x {self.width}"), self.size]))
        return ", ".join(filter(None, [words, self.variant, f"order {self.order}" if self.order else ""]))

    @property
    def is_element(self) -> bool:
        """Whether it is a processing element, of any number of terms."""
        return self.part == PROCESSING_ELEMENT

    @property
    def cells(self) -> int:
        """Processing elements of an array or a unit."""
        return int(self.options["rows"]) * int(self.options["columns"])

    def is_for(self, recipe: str) -> bool:
        """Whether it is measured with a recipe, or on an FPGA."""
        return self.scope in ("everywhere", recipe) or (self.scope == "timed" and recipe in ("area", "sized", "speed"))

    def rtlil(self, form: str = AREA) -> str:
        """Its RTLIL in a form, where it has several."""
        return self.source(form)

    def change(self, rtlil: str) -> str:
        """The lines of a script that apply the ties; empty without ties."""
        if not self.ties:
            return ""
        commands = [
            f"hierarchy -top {self.top}",
            "proc",
            "flatten",
            f"select -module {self.top}",
            *(tie.command(rtlil) for tie in self.ties),
            "select -clear",
            "check -assert",
        ]
        return "".join(f"{command}\n" for command in commands)


def kind(part: str, terms: int) -> str:
    """A part with its terms, where there are several."""
    return part if terms == 1 else f"{part} of {terms} terms"


def _fewest_stages(part: Part) -> int:
    return int(part in (PROCESSING_ELEMENT, *_SIZED))


def _component(part: Part, fmt: FloatFormat, options: Mapping[str, Any]) -> Any:
    """The component of a part; its constructor checks the options."""
    match part:
        case Part.PRODUCT:
            return SignificandProduct(fmt.significand_width)
        case Part.MULTIPLIER:
            return Multiplier(fmt, fmt, **options)
        case Part.MULTIPLIER_TO_FP32:
            return Multiplier(fmt, FP32, **options)
        case Part.ADDER:
            return Adder(fmt, **options)
        case Part.CONVERTER:
            return Converter(FP32, fmt, **options)
        case Part.PROCESSING_ELEMENT:
            return ProcessingElement(fmt, **options)
    config = MxuConfig(operand=fmt, **options)
    return {ARRAY: SystolicArray, BANK: AccumulatorBank, UNIT: Mxu}[part](config)


def point(
    part: Part,
    fmt: FloatFormat,
    *,
    subnormals: str = "flush",
    stages: int | None = None,
    rows: int = SIDE,
    columns: int = SIDE,
    terms: int = 1,
    scope: str = "everywhere",
    variant: str = "",
    ties: Iterable[Tie] = (),
) -> Point:
    """A part of a format; see :class:`Point`. Its component is made on demand."""
    fewest = _fewest_stages(part)
    stages = fewest if stages is None else stages
    options: dict[str, str | int] = {}
    words = [variant] if variant else []
    if part != PRODUCT:
        options = {"subnormals": subnormals, "stages": stages}
        if subnormals == "ieee":
            words.insert(0, "ieee")
        if stages != fewest:
            words.append(counted(stages, "stage"))
    if part in _SIZED:
        options |= {"rows": rows, "columns": columns}
    if terms > 1:
        if part not in _WITH_TERMS:
            raise ValueError(f"terms must be 1 for a part other than {', '.join(_WITH_TERMS)}, not {terms}")
        options |= {"terms": terms}
    design = made_point(
        kind(part, terms),
        None if part == PRODUCT else fmt,
        fmt.significand_width,
        lambda: _component(part, fmt, options),
        (part.value, fmt, options),
        options=options,
        variant=", ".join(words),
        size=f"{rows}x{columns}" if part in _SIZED else "",
        ties=ties,
        scope=scope,
    )
    return replace(design, part=part, terms=terms)


def made_point(
    part: str,
    fmt: FloatFormat | None,
    width: int,
    make: Callable[[], Any],
    what: object,
    *,
    variant: str = "",
    options: Mapping[str, str | int] | None = None,
    size: str = "",
    ties: Iterable[Tie] = (),
    scope: str = "area",
) -> Point:
    """A point of any component, made by ``make`` on demand: Amaranth warns of components never used.

    See :class:`Kept` for ``what``, and :class:`Point` for the rest.
    """
    top = re.sub(r"\W+", "_", f"{part} {fmt or width} {size} {variant}".strip())
    return Point(part, width, fmt, top, Kept(make, top, what), options or {}, variant, size, tuple(ties), scope)


def _with_width(width: int) -> FloatFormat:
    """The format with 8 exponent bits and a significand of ``width``, under its own name if it has one."""
    named = {fmt.significand_width: fmt for fmt in (BF16, TF32, FP32)}
    return named.get(width) or FloatFormat(f"e8f{width - 1}", 8, width - 1)


def quick_points() -> list[Point]:
    """The fewest points with the same findings: enough widths for a curve, and the three formats of the claims."""
    widths = (4, 8, 11, 24)
    formats = [_with_width(width) for width in widths]
    return [
        *(point(PRODUCT, fmt) for fmt in formats),
        *(point(MULTIPLIER, fmt) for fmt in [*formats, FP16]),
        point(MULTIPLIER_TO_FP32, BF16),
        point(ADDER, FP32),
        point(PROCESSING_ELEMENT, BF16),
    ]


def energy_points() -> list[Point]:
    """Points whose energies are compared: elements of the formats of the claims, and a unit's parts around them."""
    return [
        *(point(PROCESSING_ELEMENT, fmt) for fmt in (BF16, FP16, FP32)),
        *(point(CONVERTER, fmt) for fmt in (BF16, FP16)),
        point(ADDER, FP32),
    ]


def beside_points() -> list[Point]:
    """Points shown beside a user's design by default: our element, and the multiplier and adder that it replaces."""
    return [point(MULTIPLIER_TO_FP32, BF16), point(ADDER, FP32), point(PROCESSING_ELEMENT, BF16)]


def default_points() -> list[Point]:
    """The points of a report: all named formats, both sweeps of the significand width, and arrays."""
    sweep = [_with_width(width) for width in SWEEP]
    claimed = (BF16, FP16, FP32)
    return [
        *(point(PRODUCT, fmt) for fmt in sweep),
        *(point(MULTIPLIER, fmt) for fmt in [*sweep, FP16, FP8_E5M2, FP8_E4M3]),
        point(MULTIPLIER_TO_FP32, BF16),
        *(point(part, fmt) for part in (ADDER, PROCESSING_ELEMENT) for fmt in claimed),
        *(point(PROCESSING_ELEMENT, fmt, terms=4, scope="area") for fmt in claimed),
        *(point(part, fmt, scope="area") for part in (ARRAY, UNIT) for fmt in claimed),
    ]


def full_points() -> list[Point]:
    """The points of :func:`default_points`, and every width, part and option on gates."""
    wide = [_with_width(width) for width in range(2, 25)]
    sweep = [_with_width(width) for width in SWEEP]
    named = list(FORMATS.values())
    on_gates = partial(point, scope="area")
    points = [
        *default_points(),
        *(
            point(PROCESSING_ELEMENT, fmt, stages=stages, scope="timed")
            for fmt in (TF32, FP8_E5M2, FP8_E4M3)
            for stages in (1, 3, 6)
        ),
        # Smaller ones: an FPGA's are mapped flat, a minute for 16 processing elements of fp32.
        *(point(ARRAY, fmt, rows=2, columns=2, scope="fpga") for fmt in (BF16, FP16, FP32)),
        *(on_gates(part, fmt) for part in (PRODUCT, MULTIPLIER) for fmt in wide),
        *(on_gates(part, fmt) for part in (ADDER, PROCESSING_ELEMENT) for fmt in [*sweep, *named]),
        *(on_gates(PROCESSING_ELEMENT, fmt, terms=4) for fmt in named),
        *(on_gates(MULTIPLIER_TO_FP32, fmt) for fmt in named),
        *(point(CONVERTER, fmt, scope="timed") for fmt in named if fmt != FP32),
        *(on_gates(part, fmt) for part in (ARRAY, UNIT) for fmt in named),
        on_gates(BANK, BF16),
        *(
            on_gates(part, fmt, subnormals="ieee")
            for fmt in named
            for part in (MULTIPLIER, MULTIPLIER_TO_FP32, ADDER, CONVERTER, PROCESSING_ELEMENT)
            if (part, fmt) != (CONVERTER, FP32)
        ),
        *(
            on_gates(part, fmt, stages=stages)
            for part, fmt, all_stages in ((MULTIPLIER, BF16, (1, 2)), (ADDER, FP32, range(1, 6)))
            for stages in all_stages
        ),
        *(
            point(PROCESSING_ELEMENT, fmt, stages=stages, scope="timed")
            for fmt in (BF16, FP16, FP32)
            for stages in range(2, 8)
        ),
    ]
    return once(points)


def reordered(points: Iterable[Point], count: int) -> list[Point]:
    """The points in ``count`` other orders each."""
    return [replace(design, order=order) for design in points for order in range(1, count + 1)]


def is_headline(point: Point) -> bool:
    """Whether it is one of the parts and formats that statements about formats rest on."""
    return (
        point.kind in (PRODUCT, MULTIPLIER, PROCESSING_ELEMENT)
        and (point.width in _CLAIMED_WIDTHS if point.format is None else point.format in (BF16, FP16, FP32))
        and not (point.variant or point.order)
    )


def once(points: Iterable[Point]) -> list[Point]:
    """The points, each name once; the first one stays."""
    by_name: dict[str, Point] = {}
    for design in points:
        by_name.setdefault(design.name, design)
    return list(by_name.values())


def formats_of_widths(ranges: Sequence[str]) -> list[str]:
    """Formats with 8 exponent bits and as many fraction bits as ``ranges`` say, each a number or as in ``"1-23"``.

    >>> from openmxu.area.subject.points import formats_of_widths
    >>> formats_of_widths(["7", "9-10"])
    ['bf16', 'e8f9', 'tf32']
    """
    names = []
    for text in ranges:
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= low <= high <= 23:
            raise ValueError(f"width must be fraction bits from 1 to 23, or a range as in 1-23, not {text!r}")
        names += [_with_width(fraction + 1).name for fraction in range(low, high + 1)]
    return names


def chosen_points(
    parts: Sequence[str],
    formats: Sequence[str],
    *,
    subnormals: Sequence[str] = ("flush",),
    stages: Sequence[int] = (),
    rows: int = SIDE,
    columns: int = SIDE,
    terms: Sequence[int] = (1,),
) -> list[Point]:
    """The points that were asked for, each part of each format with each option."""
    for name in parts:
        if name not in PART_NAMES and name not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PART_NAMES)}, not {name!r}")
    chosen = [PART_NAMES.get(name) or Part(name) for name in parts] or [MULTIPLIER]
    choices: list[int | None] = [*stages] or [None]
    points: list[Point] = []
    for part, fmt, mode, stage, count in itertools.product(
        chosen, map(FloatFormat.parse, formats), subnormals, choices, terms
    ):
        design = point(part, fmt, subnormals=mode, stages=stage, rows=rows, columns=columns, terms=count)
        _component(part, fmt, design.options)  # refuses options now, not in the middle
        points.append(design)
    return once(points)
