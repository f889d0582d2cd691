# amaranth: UnusedElaboratable=no
# (a component that refuses its parameters goes unused)
"""Design points: what an area report measures."""

import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from openmxu import SOURCES
from openmxu.arith import Adder, Converter, Multiplier, SignificandProduct
from openmxu.export.verilog import to_rtlil
from openmxu.runtime import cache
from openmxu.spec.config import MxuConfig
from openmxu.spec.formats import BF16, FORMATS, FP8_E4M3, FP8_E5M2, FP16, FP32, TF32, FloatFormat
from openmxu.spec.forms import AREA
from openmxu.spec.stages import TERMS
from openmxu.unit.accumulator import AccumulatorBank
from openmxu.unit.array import SystolicArray
from openmxu.unit.mxu import Mxu
from openmxu.unit.pe import ProcessingElement

PRODUCT = "significand product"
MULTIPLIER = "multiplier"
ADDER = "adder"
MULTIPLIER_TO_FP32 = "multiplier to fp32"
CONVERTER = "converter from fp32"
PROCESSING_ELEMENT = "processing element"
ARRAY = "array"
BANK = "accumulator bank"
UNIT = "unit"

ELEMENTS = {terms: f"{PROCESSING_ELEMENT} of {terms} terms" if terms > 1 else PROCESSING_ELEMENT for terms in TERMS}
"""The parts that are processing elements, by their number of terms."""

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


@dataclass(frozen=True)
class Point:
    """One design to measure."""

    part: str
    """Name of the part, in words."""
    width: int
    """Significand width of its operands."""
    format: FloatFormat | None
    """Format of its operands; none for a bare product of significands."""
    top: str
    """Name of its top module."""
    rtlil: Callable[[], str] = field(repr=False)
    """Gives its RTLIL; :class:`Rtlil` of our arithmetic has several forms."""
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

    @property
    def name(self) -> str:
        """Part, operands and variant in words."""
        words = " ".join(filter(None, [self.part, str(self.format or f"{self.width} x {self.width}"), self.size]))
        return ", ".join(filter(None, [words, self.variant, f"order {self.order}" if self.order else ""]))

    @property
    def is_element(self) -> bool:
        """Whether it is a processing element, of any number of terms."""
        return self.part in ELEMENTS.values()

    @property
    def terms(self) -> int:
        """Multiply-adds of an element in a cycle."""
        return int(self.options.get("terms", 1))

    @property
    def cells(self) -> int:
        """Processing elements of an array or a unit."""
        return int(self.options["rows"]) * int(self.options["columns"])

    def is_for(self, recipe: str) -> bool:
        """Whether it is measured with a recipe, or on an FPGA."""
        return self.scope in ("everywhere", recipe) or (self.scope == "timed" and recipe in ("area", "sized", "speed"))

    def in_form(self, form: str) -> str:
        """The RTLIL in a form, where it has several; see :data:`~openmxu.spec.forms.FORMS`."""
        return self.rtlil(form) if isinstance(self.rtlil, Rtlil) else self.rtlil()

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


_STAGED = {
    MULTIPLIER: 0,
    MULTIPLIER_TO_FP32: 0,
    ADDER: 0,
    CONVERTER: 0,
    PROCESSING_ELEMENT: 1,
    ARRAY: 1,
    BANK: 1,
    UNIT: 1,
}
"""The parts that have pipeline stages, and their default numbers."""

_SIZED = (ARRAY, BANK, UNIT)

_WITH_TERMS = (PROCESSING_ELEMENT, ARRAY, UNIT)
"""The parts whose elements can add several terms."""

PARTS: Mapping[str, Callable[..., Any]] = {
    PRODUCT: lambda fmt: SignificandProduct(fmt.significand_width),
    MULTIPLIER: lambda fmt, **options: Multiplier(fmt, fmt, **options),
    MULTIPLIER_TO_FP32: lambda fmt, **options: Multiplier(fmt, FP32, **options),
    ADDER: Adder,
    CONVERTER: partial(Converter, FP32),
    PROCESSING_ELEMENT: ProcessingElement,
    ARRAY: lambda fmt, **options: SystolicArray(MxuConfig(operand=fmt, **options)),
    BANK: lambda fmt, **options: AccumulatorBank(MxuConfig(operand=fmt, **options)),
    UNIT: lambda fmt, **options: Mxu(MxuConfig(operand=fmt, **options)),
}
"""The parts that can be measured, by name: functions from format and options to the component."""


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


def point(
    part: str,
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
    """A part of a format; see :class:`Point`. Its component is made on demand. With several terms it is another part:
    a report's statements are about one.
    """
    fewest = _STAGED.get(part, 0)
    stages = fewest if stages is None else stages
    options: dict[str, str | int] = {}
    words = [variant] if variant else []
    size = ""
    if part in _STAGED:
        options = {"subnormals": subnormals, "stages": stages}
        if subnormals == "ieee":
            words.insert(0, "ieee")
        if stages != fewest:
            words.append(f"{stages} stage{'s' * (stages != 1)}")
    if part in _SIZED:
        options |= {"rows": rows, "columns": columns}
        size = f"{rows}x{columns}"
    if terms > 1:
        if part not in _WITH_TERMS:
            raise ValueError(f"terms must be 1 for a part other than {', '.join(_WITH_TERMS)}, not {terms}")
        options |= {"terms": terms}
    return made_point(
        part if terms == 1 else f"{part} of {terms} terms",
        None if part == PRODUCT else fmt,
        fmt.significand_width,
        lambda: PARTS[part](fmt, **options),
        (part, fmt, options),
        options=options,
        variant=", ".join(words),
        size=size,
        ties=ties,
        scope=scope,
    )


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

    See :class:`KeptRtlil` for ``what``, and :class:`Point` for the rest.
    """
    top = re.sub(r"\W+", "_", f"{part} {fmt or width} {size} {variant}".strip())
    text = KeptRtlil(make, top, what)
    return Point(part, width, fmt, top, text, options or {}, variant, size, tuple(ties), scope)


class Rtlil(ABC):
    """RTLIL in several forms."""

    @abstractmethod
    def __call__(self, form: str = AREA) -> str:
        """The text in one of :data:`~openmxu.spec.forms.FORMS`."""


@dataclass(frozen=True)
class KeptRtlil(Rtlil):
    """The RTLIL of a component of this package, cached: making it takes longer than looking up its measurement."""

    make: Callable[[], Any]
    """Makes the component."""
    top: str
    """Name of its top module."""
    what: object
    """Everything that the component depends on."""

    def __call__(self, form: str = AREA) -> str:
        def text() -> bytes:
            return to_rtlil(self.make(), name=self.top, form=form).encode()

        return cache.fetch_result(SOURCES, text, "rtlil", self.top, repr(self.what), form).decode()


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
        point.part in (PRODUCT, MULTIPLIER, PROCESSING_ELEMENT)
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
    parts = [PART_NAMES.get(part, part) for part in parts]
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PART_NAMES)}, not {part!r}")
    points: list[Point] = []
    choices: list[int | None] = [*stages] or [None]
    for part in parts or [MULTIPLIER]:
        for fmt in map(FloatFormat.parse, formats):
            for mode, stage, count in itertools.product(subnormals, choices, terms):
                points.append(point(part, fmt, subnormals=mode, stages=stage, rows=rows, columns=columns, terms=count))
                points[-1].rtlil()  # raises errors now, not in the middle
    return once(points)
