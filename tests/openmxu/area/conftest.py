"""Helpers for tests of areas: Yosys, results that nothing measured, and arguments that are refused."""

import sys
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from openmxu import yosys
from openmxu.area import Point, Report, Result, to_table
from openmxu.area.subject.points import PROCESSING_ELEMENT, Text
from openmxu.area.target.targets import Area, Target, choose_targets
from openmxu.spec.formats import FORMATS, FloatFormat

from ...conftest import Said

report_module: Any = sys.modules["openmxu.area.report"]
"""The package has the function by this name."""

GENERIC, ECP5, DSP = choose_targets(["generic", "ecp5", "ecp5-dsp"], [], ["area"])

COMPLAINT = "ERROR: [red]no[/red] </code><script>``` | &"
"""What a part that failed says; it means something to a terminal, to HTML and to Markdown."""


def result(
    part: str,
    fmt: str | FloatFormat | int,
    area: float | Area | None,
    *,
    target: Target = GENERIC,
    delay: float | None = None,
    order: int = 0,
    size: str = "",
    **options: Any,
) -> Result:
    """A part of a format, or of a bare width; without an area it has failed."""
    known = FORMATS[fmt] if isinstance(fmt, str) else fmt
    width, own = (known, None) if isinstance(known, int) else (known.significand_width, known)
    options = {"subnormals": "flush", "stages": int(part == PROCESSING_ELEMENT), **options}
    terms = options.get("terms", 1)
    point = Point(part, width, own, "top", Text(""), options, size=size, order=order, terms=terms)
    counted = Area(area, area, 0.0, cell_area=area, cells={"NAND2": 1}) if isinstance(area, float | int) else area
    error = "" if counted else f"Yosys: exit code 1\n{COMPLAINT}"
    return Result(point, target, counted, error, "", point.name, delay=delay)


def printed(report: Report) -> str:
    """The table on a terminal."""
    console = Console(record=True, width=120, file=StringIO())
    console.print(to_table(report))
    return console.export_text()


@pytest.fixture(scope="session")
def tool() -> str:
    """Yosys is ready, and compiled once only if it was not."""
    return yosys.prepare()


@pytest.fixture
def refused(refused: Said) -> Said:
    """The line that ``openmxu area`` says of arguments."""
    return lambda *arguments: refused("area -o nothing", *map(str, arguments))
