"""The command ``area``."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmxu.cli.frame import add_command, integer, offer, print_drawn, print_foreign, tell
from openmxu.spec.formats import FORMATS, SUBNORMALS

if TYPE_CHECKING:
    from openmxu.area.finding.findings import Report
    from openmxu.area.subject.given import Given
    from openmxu.area.subject.points import Point

_CHOICE = ("format", "part", "width", "subnormals", "stages", "terms", "rows", "columns")
"""Options that choose designs."""


def add_area(commands: Any) -> None:
    parser = add_command(
        commands,
        "area",
        _area,
        "measure and compare the area of number formats with Yosys",
        "  openmxu area -o report\n  openmxu area --quick -o report\n"
        "  openmxu area --full --liberty sky130_fd_sc_hd__tt_025C_1v80.lib.gz -o report\n"
        "  openmxu area --format e6f9 --format bf16 --part multiplier --part adder --subnormals ieee -o report\n"
        "  openmxu area --target ecp5 --target ice40 -o report --compare report/area.json\n"
        "  openmxu area --explain adder -o report\n"
        "  openmxu area --energy --liberty sky130_fd_sc_hd__tt_025C_1v80.lib.gz -o report\n"
        "  openmxu area --verilog mac.v --top mac --verilog rtl/*.sv --top fma --clock clk_i -o report\n"
        "  openmxu area --peers folder --liberty sky130_fd_sc_hd__tt_025C_1v80.lib.gz -o beside",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder for report.html, report.md, summary.md, area.json, area.csv and the plots; with --peers for "
        "peers.md and peers.json",
    )
    _add_extent(parser)
    _add_measurements(parser)
    _add_targets(parser)
    _add_choice(parser)
    add_given(parser, "your own designs beside ours", _EACH)
    _add_workers(parser)
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="list the changes since this area.json")
    parser.add_argument(
        "--explain",
        metavar="FIGURE",
        help="do not measure; show how a figure in DIR's report, or each figure of a design, was produced, with its "
        "script",
    )


def _add_extent(parser: argparse.ArgumentParser) -> None:
    """Options for the extent: the designs that are measured."""
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument(
        "--quick",
        action="store_const",
        dest="extent",
        const="quick",
        default="default",
        help="few designs, generic gates: under a minute",
    )
    extent.add_argument(
        "--full",
        action="store_const",
        dest="extent",
        const="full",
        help="every format, width, part and option, on all targets, recipes and installed libraries: up to an hour on "
        "two cores",
    )
    extent.add_argument(
        "--peers",
        type=Path,
        metavar="FOLDER",
        help="measure the published designs that FOLDER/peers.toml describes beside our parts, on generic gates or the "
        "given targets",
    )


def _add_measurements(parser: argparse.ArgumentParser) -> None:
    """Options for measurements beside areas."""
    parser.add_argument(
        "--energy",
        action="store_true",
        help="also measure energies: simulate netlists on cell libraries, checking every output; included in --full",
    )
    parser.add_argument(
        "--layer",
        type=Path,
        metavar="FILE.npz",
        help="with --energy: also use a layer of your network as operands: activations (a row for each sample) and "
        "weights (a column for each output)",
    )
    parser.add_argument(
        "--orders",
        type=integer,
        metavar="N",
        help="show how far areas on gates vary over N other orders of ABC's inputs and outputs: of the designs chosen, "
        "or else of the designs behind conclusions (default: 0; with --full 5)",
    )


def _add_targets(parser: argparse.ArgumentParser) -> None:
    """Options for targets and recipes."""
    from openmxu.area import DEFAULT_TARGETS, RECIPES, TARGETS

    offer(parser, target=lambda: TARGETS, recipe=lambda: RECIPES)
    parser.add_argument(
        "--target",
        action="append",
        metavar="NAME",
        help=f"one of {', '.join(TARGETS)}; repeatable (default: {', '.join(DEFAULT_TARGETS)})",
    )
    parser.add_argument(
        "--liberty",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="a cell library, plain or .gz; repeatable. Libraries in $OPENMXU_LIBERTY are added; "
        "--full also uses those under $PDK_ROOT and Debian's qflow",
    )
    parser.add_argument(
        "--recipe",
        action="append",
        metavar="NAME",
        help=f"how gates are mapped, one of {', '.join(RECIPES)}; repeatable (default: area; with --full all)",
    )


def _add_choice(parser: argparse.ArgumentParser) -> None:
    """Options for designs in place of those of the extent."""
    from openmxu.area import PART_NAMES

    offer(parser, format=lambda: FORMATS, part=lambda: PART_NAMES, subnormals=lambda: SUBNORMALS)
    chosen = parser.add_argument_group("choice of designs")
    for option, words in (
        ("format NAME", "measure this format only: a name, or eXfY for X exponent and Y fraction bits; repeatable"),
        (
            "part NAME",
            f"part to measure in each format, one of {', '.join(PART_NAMES)}; repeatable (default: multiplier)",
        ),
        (
            "width N",
            "measure formats with 8 exponent bits and N fraction bits, 1 to 23, or a range such as 1-23; repeatable",
        ),
    ):
        name, metavar = option.split()
        chosen.add_argument(f"--{name}", action="append", default=[], metavar=metavar, help=words)
    modes = "flush or ieee; repeatable (default: flush)"
    chosen.add_argument("--subnormals", action="append", metavar="MODE", help=modes)
    for name, words in (
        ("stages", "pipeline stages; repeatable (default: the fewest possible)"),
        ("terms", "products that an element of a pe, array or mxu adds at once: 1, 2, 4 or 8; repeatable (default: 1)"),
    ):
        chosen.add_argument(f"--{name}", action="append", type=integer, metavar="N", help=words)
    for side in ("rows", "columns"):
        words = f"{side} of arrays, banks and units (default: 4)"
        chosen.add_argument(f"--{side}", type=integer, metavar="N", help=words)


class _OfDesign(argparse.Action):
    """An option of a design: some options begin a design, the others belong to the last one begun."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        designs = [dict(design) for design in namespace.designs]
        begins = {
            "verilog": True,
            "amaranth": True,
            "filelist": not designs or bool({"filelist", "amaranth"} & set(designs[-1])),
        }
        if begins.get(self.dest, False):
            designs.append({})
        elif not designs:
            raise argparse.ArgumentError(self, "must come after --verilog, --filelist or --amaranth")
        several = self.dest in ("include", "define", "param")
        designs[-1][self.dest] = [*designs[-1].get(self.dest, []), values] if several else values
        namespace.designs = designs


_EACH = "each --verilog, --filelist or --amaranth begins a design; the options that follow belong to it"


def add_given(parser: argparse.ArgumentParser, title: str, words: str) -> None:
    """Options for designs from files or from Python."""
    parser.set_defaults(designs=[])
    group = parser.add_argument_group(title, words)

    def add(name: str, **options: Any) -> None:
        group.add_argument(f"--{name}", action=_OfDesign, default=argparse.SUPPRESS, **options)

    add(
        "verilog",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="source files, in this order: Verilog, SystemVerilog, VHDL",
    )
    add(
        "filelist",
        type=Path,
        metavar="FILE",
        help="file with a list of source files, +incdir+DIR and +define+NAME=VALUE",
    )
    add(
        "amaranth",
        metavar="SPEC",
        help="an Amaranth component: package.module:Class(arguments); runs the code of that module",
    )
    add("top", metavar="NAME", help="top module")
    add("include", type=Path, metavar="DIR", help="include folder; repeatable")
    add("define", metavar="NAME=VALUE", help="macro; repeatable")
    add("param", metavar="NAME=VALUE", help="parameter or generic of the top module; repeatable")
    add("clock", metavar="PORT", help="clock of the design; needed only if it has several")
    add("reader", metavar="NAME", help="auto, verilog (Yosys's own) or slang (default: auto, which is slang for .sv)")
    add("label", metavar="NAME", help="name in reports (default: the top module)")


def _add_workers(parser: argparse.ArgumentParser) -> None:
    """Options for the machines that run Yosys, and for its time limit."""
    from openmxu.area import TIME_LIMIT

    parser.add_argument(
        "--jobs", type=integer, metavar="N", help="Yosys processes at a time (default: one for each core)"
    )
    parser.add_argument(
        "--cluster", metavar="ADDRESS", help="run on the workers of a Dask scheduler, such as tcp://host:8786"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=TIME_LIMIT,
        metavar="SECONDS",
        help="report a measurement as failed after this time (default: %(default).0f)",
    )


def _area(options: argparse.Namespace) -> int:
    from openmxu.area import report, to_table
    from openmxu.area.pages.compare import to_text
    from openmxu.area.pages.explain import explain
    from openmxu.area.pages.schema import read_report

    if options.peers is not None:
        return _peers(options)
    if options.explain is not None:
        print_foreign(explain(read_report(options.output / "area.json"), options.explain))
        return 0
    old = None if options.compare is None else read_report(options.compare)  # now: it may be in DIR
    points, unread = _points(options)
    areas = report(
        options.output,
        extent=options.extent,
        targets=options.target,
        liberty=options.liberty,
        recipes=options.recipe,
        points=points,
        jobs=options.jobs,
        cluster=options.cluster,
        limit=options.timeout,
        energy=options.energy,
        layer=options.layer,
        orders=options.orders,
        progress=tell,
    )
    print_drawn(to_table(areas), soft_wrap=True)
    for path in areas.files:
        tell(f"wrote {path}")
    if old is not None:
        print_foreign(f"since {options.compare}:\n{to_text(old, read_report(options.output / 'area.json'))}")
    return _area_outcome(areas, unread)


def _area_outcome(areas: "Report", unread: "list[str]") -> int:
    """Report designs that were not measured, and return the exit code."""
    for line in unread:
        tell(f"not measured: {line}")
    missing = {energy.error: energy for energy in areas.energies if energy.error}
    for energy in missing.values():
        tell(f"no energy of {energy.result.point.name} on {energy.result.target.label}: {energy.error}")
    if unread or (missing and all(energy.error for energy in areas.energies)):
        return 2
    return 1 if areas.failed or missing else 0


def _points(options: argparse.Namespace) -> "tuple[list[Point] | None, list[str]]":
    """The designs that the options choose, ours and the user's, and a line for each of these that cannot be read."""
    from openmxu import yosys
    from openmxu.area.subject.given import read_given
    from openmxu.area.subject.points import beside_points

    chosen = _chosen_designs(options)
    designs = given(options)
    if not designs:
        return chosen, []
    ours = chosen or beside_points()
    for design in designs:
        if design.name in [point.name for point in ours]:
            raise ValueError(f"--label must tell your designs from ours, not {design.name!r}")
    yosys.prepare(tell)
    theirs, unread = read_given(designs, options.timeout, tell)
    if not theirs:
        raise ValueError("; ".join(unread))
    return [*theirs, *ours], unread


def given(options: argparse.Namespace) -> "list[Given]":
    """The user's designs, checked."""
    from openmxu.area.subject.given import AUTO, Given, listed, pair

    designs = []
    for design in options.designs:
        files, include, defines = listed(design["filelist"]) if "filelist" in design else ([], [], [])
        designs.append(
            Given(
                files=(*design.get("verilog", []), *files),
                top=design.get("top", ""),
                include=(*design.get("include", []), *include),
                defines=(*map(pair, design.get("define", [])), *defines),
                parameters=tuple(map(pair, design.get("param", []))),
                clock=design.get("clock", ""),
                reader=design.get("reader", AUTO),
                label=design.get("label", ""),
                amaranth=design.get("amaranth", ""),
            )
        )
        designs[-1].check()
        if designs[-1].name in [earlier.name for earlier in designs[:-1]]:
            raise ValueError(f"--label must tell designs apart, and two are called {designs[-1].name!r}")
    return designs


def _peers(options: argparse.Namespace) -> int:
    from openmxu.area.chapters.peer_tables import to_markdown
    from openmxu.area.finding.comparison import COMPARISON_FILES, compare_peers

    if options.designs:
        raise ValueError("--peers describes designs in its folder; --verilog, --filelist and --amaranth do without")
    for name in (*_CHOICE, "compare", "explain", "orders", "layer", "energy"):
        if getattr(options, name) not in (None, [], False):
            raise ValueError(f"--{name} applies only to reports of our own designs, not to --peers")
    comparison = compare_peers(
        options.peers,
        options.output,
        to_markdown,
        targets=options.target,
        liberty=options.liberty,
        recipes=options.recipe,
        jobs=options.jobs,
        cluster=options.cluster,
        limit=options.timeout,
        progress=tell,
    )
    print_foreign(to_markdown(comparison))
    for name in COMPARISON_FILES:
        tell(f"wrote {options.output / name}")
    return 1 if comparison.failed else 0


def _chosen_designs(options: argparse.Namespace) -> "list[Point] | None":
    """The designs that the options choose; none where they leave them to the extent."""
    from openmxu.area.subject.points import SIDE, chosen_points, formats_of_widths

    formats = [*options.format, *formats_of_widths(options.width)]
    if formats:
        return chosen_points(
            options.part,
            formats,
            subnormals=options.subnormals or ("flush",),
            stages=options.stages or (),
            terms=options.terms or (1,),
            rows=SIDE if options.rows is None else options.rows,
            columns=SIDE if options.columns is None else options.columns,
        )
    for name in _CHOICE:
        if getattr(options, name) not in (None, []):
            raise ValueError(f"--{name} applies only to designs chosen with --format or --width")
    return None
