"""The commands of this package: ``list``, ``verilog``, ``area``, ``cache``, ``completion``."""

import argparse
import shlex
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from openmxu.cli.frame import (
    Console,
    Section,
    add_command,
    integer,
    make_parser,
    print_drawn,
    print_foreign,
    subcommands,
    tell,
)
from openmxu.runtime.files import folder, reserve
from openmxu.spec.formats import FORMATS, SUBNORMALS

if TYPE_CHECKING:
    from openmxu.area.finding.findings import Report
    from openmxu.area.subject.given import Given
    from openmxu.area.subject.points import Point
    from openmxu.catalog import Design

__all__ = [
    "add_area",
    "add_cache",
    "add_completion",
    "add_list",
    "add_parameters",
    "add_verilog",
    "requested",
    "sections",
]

_MANY_CELLS = 256
"""Processing elements from which on a bench takes minutes."""

_SECTIONS = "openmxu.sections"
"""Entry points with this group give the sections of ``openmxu list``."""


def add_list(commands: Any) -> None:
    add_command(commands, "list", _list, "show designs, engines, area targets and boards")


def _list(options: argparse.Namespace) -> None:
    console = Console(highlight=False)
    # This package first, for the others build on it.
    for point in sorted(entry_points(group=_SECTIONS), key=lambda point: point.module != __name__):
        for title, rows in point.load()():
            console.print(f"[bold]{title}[/bold]")
            grid = Table(box=None, show_header=False)
            grid.add_column(no_wrap=True)
            grid.add_column()
            for row in rows:
                grid.add_row(*row)
            console.print(grid)


def sections() -> Iterator[Section]:
    """What ``openmxu list`` shows of this package."""
    from openmxu.area import TARGETS
    from openmxu.area.target.libraries import found_libraries
    from openmxu.catalog import CATALOG

    yield "Designs (openmxu verilog DESIGN)", [(design.name, design.summary) for design in CATALOG.values()]
    yield (
        "Formats",
        [
            (each.name, f"{each.exponent_width} exponent, {each.fraction_width} fraction bits")
            for each in FORMATS.values()
        ],
    )
    libraries = [("", f"found: {path} ({source})") for path, source in found_libraries()]
    yield "Area targets (openmxu area --target)", [*TARGETS.items(), ("--liberty FILE", "any cell library"), *libraries]


def add_completion(commands: Any) -> None:
    import shtab

    parser = add_command(
        commands,
        "completion",
        _completion,
        "print a shell script that completes commands and options",
        "  openmxu completion bash > ~/.local/share/bash-completion/completions/openmxu\n"
        "  openmxu completion zsh > ~/.zfunc/_openmxu",
    )
    parser.add_argument(
        "shell", metavar="SHELL", choices=shtab.SUPPORTED_SHELLS, help=f"one of {', '.join(shtab.SUPPORTED_SHELLS)}"
    )


def _completion(options: argparse.Namespace) -> None:
    import shtab

    print(shtab.complete(make_parser(), options.shell))


def add_verilog(commands: Any) -> None:
    from openmxu.catalog import CATALOG

    parser = add_command(
        commands,
        "verilog",
        _verilog,
        "write a design as plain Verilog",
        "  openmxu verilog mxu --rows 8 --columns 8 -o mxu.v\n"
        "  openmxu verilog mxu --bus axi --rows 8 --columns 8 -o mxu.v --template instance.v --core mxu.core\n"
        "  openmxu verilog mxu --rows 8 --columns 8 --ports flat -o mxu.v --template instance.vhd\n"
        "  openmxu verilog mxu --rows 8 --columns 8 --memories wrapped --clock-enable --prefix my -o mxu.v\n"
        "  openmxu verilog mxu --rows 4 --columns 4 --bench verilog -o unit    # then: make -C unit\n"
        "  openmxu verilog mxu --bus axi --rows 4 --columns 4 --bench cocotb -o unit\n"
        "  openmxu verilog adder --subnormals ieee --stages 2 -o adder.v\n"
        "  openmxu verilog multiplier --operand fp16 --result fp32 -o multiplier.v\n\n"
        "designs:\n" + "\n".join(f"  {d.name:<18} {d.summary}" for d in CATALOG.values()),
    )
    parser.add_argument("design", metavar="DESIGN", help="one of the designs below")
    parser.add_argument(
        "-o",
        "--output-file",
        type=Path,
        metavar="FILE",
        help="Verilog file (default: the terminal); with --bench, the folder for all files",
    )
    _add_beside(parser)
    _add_form(parser)
    add_parameters(parser)


def _add_beside(parser: argparse.ArgumentParser) -> None:
    """What is written beside the Verilog."""
    parser.add_argument(
        "--template",
        type=Path,
        metavar="FILE",
        help="write an instance to copy from: VHDL with a component declaration if FILE ends with .vhd or .vhdl, else "
        "Verilog",
    )
    parser.add_argument("--core", type=Path, metavar="FILE.core", help="write a FuseSoC core file beside the Verilog")
    parser.add_argument(
        "--bench",
        metavar="NAME",
        help="verilog or cocotb: write the unit with a bench that checks it bit for bit, golden vectors, a makefile "
        "for Icarus Verilog and Verilator, and a FuseSoC core file",
    )


def _add_form(parser: argparse.ArgumentParser) -> None:
    """Choices of form: names, ports, where memories are, a clock enable."""
    parser.add_argument("--name", metavar="NAME", help="name of the top module (default: from the design)")
    parser.add_argument(
        "--prefix",
        metavar="NAME",
        help="prefix of the names of inner modules (default: the top module's name and a digest of the design, so that "
        "equal names mean equal modules)",
    )
    parser.add_argument(
        "--ports",
        default="nested",
        metavar="NAME",
        help="names of ports: nested (weights__valid) or flat (weights_valid, legal in VHDL); default: nested",
    )
    parser.add_argument(
        "--memories",
        default="inline",
        metavar="NAME",
        help="where memories are: inline (in the modules that use them) or wrapped (a separate module for each shape, "
        "which a foundry's or vendor's can replace); default: inline",
    )
    parser.add_argument(
        "--clock-enable",
        action="store_true",
        help="add an input clk_en (aclken on AXI): clock edges at which it is low change nothing",
    )


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """All parameters that some design has."""
    for name, kind in _design_parameters().items():
        if kind is bool:
            parser.add_argument(f"--{name}", action="store_true", default=None, help=_PARAMETERS[name])
        else:
            parser.add_argument(
                f"--{name}",
                type=integer if kind is int else str,
                metavar="N" if kind is int else "NAME",
                help=_PARAMETERS[name],
            )


_PARAMETERS = {
    "width": "width of each operand of a product, in bits",
    "operand": "operand format: " + ", ".join(FORMATS) + ", or eXfY",
    "result": "result format of a multiplier, or of a unit's result stream: fp32 or the operand format",
    "source": "input format of a converter, or of a unit's input streams: fp32 or the operand format",
    "target": "output format of a converter",
    "subnormals": "one of " + ", ".join(SUBNORMALS),
    "stages": "pipeline stages",
    "rows": "rows of an array or unit",
    "columns": "columns of an array or unit",
    "depth": "places in a unit's accumulator bank, a power of two",
    "splitter": "let the unit split fp32 words into the parts for several passes",
    "status": "give the unit counters and an error code",
    "bus": "bus of a unit: none (its own streams) or axi (AXI4-Stream, and registers on AXI4-Lite)",
}


def _design_parameters() -> dict[str, type]:
    """All parameters that some design has, with their types."""
    from openmxu.catalog import CATALOG

    return {name: type(default) for design in CATALOG.values() for name, default in design.domain.items()}


def requested(options: argparse.Namespace) -> "tuple[Design, dict[str, Any]]":
    """The design that is asked for, and the parameters that are given with it.

    Raises
    ------
    ValueError
        There is no such design.
    """
    from openmxu.catalog import CATALOG

    if options.design not in CATALOG:
        raise ValueError(f"DESIGN must be one of {', '.join(CATALOG)}, not {options.design!r}")
    given = {name: getattr(options, name) for name in _design_parameters() if getattr(options, name) is not None}
    return CATALOG[options.design], given


def _verilog(options: argparse.Namespace) -> None:
    from openmxu.export.integration import to_core, to_template, to_vhdl_template

    design, given = requested(options)
    _check_verilog(options)
    if options.bench is not None:
        _verilog_with_bench(options, design, given)
        return
    with reserve(options.output_file, options.template, options.core) as outputs:
        component = design.build(**given)
        if design.cells > 1024 and not given:
            tell(f"writing {design.summary}: about 10 seconds")
        name = options.name or component.module_name
        text = _export(options, component, name, given)
        template = ""
        if options.template is not None:
            write_template = to_vhdl_template if options.template.suffix in (".vhd", ".vhdl") else to_template
            template = write_template(component, text, name=name, ports=options.ports)
        outputs.write_text(options.output_file, text)
        outputs.write_text(options.template, template)
        if options.core is not None:
            outputs.write_text(options.core, to_core(options.output_file.name, name=name))
        if options.output_file is None:
            print(text, end="")


def _export(options: argparse.Namespace, component: Any, name: str, given: dict[str, Any]) -> str:
    """The Verilog of a component, as it is asked for."""
    from openmxu.export.verilog import to_verilog

    return to_verilog(
        component,
        name=name,
        prefix=options.prefix,
        ports=options.ports,
        memories=options.memories,
        clock_enable=options.clock_enable,
        command=_verilog_command(options, given),
    )


def _verilog_with_bench(options: argparse.Namespace, design: "Design", given: dict[str, Any]) -> None:
    """Write a unit and all that belongs to its bench into a folder."""
    from openmxu.export.bench import Export, find_bench

    bench = find_bench(options.bench)
    # As the unit itself is called; but what is built must be used, and the files are looked at first.
    name = options.name or ("mxu_axi" if (design.domain | given)["bus"] == "axi" else "mxu")
    where = options.output_file
    files = [where / file for file in (f"{name}.v", *bench.names(name))]
    with folder(where), reserve(*files) as outputs:
        component = design.build(**given)
        cells = component.config.rows * component.config.columns
        if cells >= _MANY_CELLS:
            tell(f"note: simulators copy each of the {cells} processing elements, which takes minutes and gigabytes")
        text = _export(options, component, name, given)
        command = f"{_verilog_command(options, given)} --bench {options.bench} -o DIR"
        export = Export(component, name, options.ports, options.clock_enable, command)
        for file, content in zip(files, [text, *bench.write(export)], strict=True):
            outputs.write_text(file, content)
    tell(f"wrote {', '.join(file.name for file in files)} to {where}; make -C {where} runs the bench")


def _check_verilog(options: argparse.Namespace) -> None:
    """Refuse what is wrong with a request before any work is done."""
    from openmxu.export.memories import check_memories
    from openmxu.export.names import check_names

    check_names(options.name, options.prefix, options.ports)
    check_memories(options.memories)
    if options.bench is not None:
        _check_bench(options)
    if options.core is not None and (
        options.output_file is None or options.output_file.resolve().parent != options.core.resolve().parent
    ):
        raise ValueError(f"core must be in the folder of the Verilog file, which -o names, not {options.core}")


def _check_bench(options: argparse.Namespace) -> None:
    """Refuse a bench of what has none, or with no place to go."""
    from openmxu.catalog import CATALOG

    if CATALOG[options.design].family != "mxu":
        units = ", ".join(design.name for design in CATALOG.values() if design.family == "mxu")
        raise ValueError(f"bench applies only to a unit ({units}), not to {options.design}")
    if options.output_file is None:
        raise ValueError("bench needs a folder for its files, which -o names")
    if options.core is not None or options.template is not None:
        raise ValueError("bench writes a core file and an instance itself: leave out --core and --template")


def _verilog_command(options: argparse.Namespace, given: dict[str, Any]) -> str:
    """The command that writes the same Verilog: the design and what was chosen, without the paths of outputs."""
    words = ["openmxu", "verilog", options.design]
    for name, value in given.items():
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    for name in ("name", "prefix"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name}", value]
    for name, default in (("ports", "nested"), ("memories", "inline")):
        if (value := getattr(options, name)) != default:
            words += [f"--{name}", value]
    words += ["--clock-enable"] * options.clock_enable
    return shlex.join(words)


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
    _add_own_designs(parser)
    _add_given(parser)
    _add_workers(parser)
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="list the changes since this area.json")
    parser.add_argument(
        "--explain",
        metavar="FIGURE",
        help="do not measure; show how a figure in DIR's report, or each figure of a design, was produced, with its "
        "script",
    )


def _add_extent(parser: argparse.ArgumentParser) -> None:
    """Which designs are measured."""
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
    """What is measured beside areas."""
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
        "--placed",
        action="store_true",
        help="also place and route multipliers, adders and processing elements with Debian's qflow, graywolf and "
        "qrouter; included in --full if these are installed",
    )
    parser.add_argument(
        "--orders",
        type=integer,
        metavar="N",
        help="show how far areas on gates vary over N other orders of ABC's inputs and outputs: of the designs chosen, "
        "or else of those behind statements about formats (default: 0; with --full 5)",
    )


def _add_targets(parser: argparse.ArgumentParser) -> None:
    """What designs are mapped to, and how."""
    from openmxu.area import DEFAULT_TARGETS, RECIPES, TARGETS

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


def _add_own_designs(parser: argparse.ArgumentParser) -> None:
    """Designs in place of those of the extent."""
    from openmxu.area import PART_NAMES

    chosen = parser.add_argument_group("choice of designs")
    chosen.add_argument(
        "--format",
        action="append",
        default=[],
        metavar="NAME",
        help="measure this format only: a name, or eXfY for X exponent and Y fraction bits; repeatable",
    )
    chosen.add_argument(
        "--part",
        action="append",
        default=[],
        metavar="NAME",
        help=f"part to measure in each format, one of {', '.join(PART_NAMES)}; repeatable (default: multiplier)",
    )
    chosen.add_argument(
        "--width",
        action="append",
        default=[],
        metavar="N",
        help="measure formats with 8 exponent bits and N fraction bits, 1 to 23, or a range such as 1-23; repeatable",
    )
    chosen.add_argument(
        "--subnormals", action="append", metavar="MODE", help="flush or ieee; repeatable (default: flush)"
    )
    chosen.add_argument(
        "--stages",
        action="append",
        type=integer,
        metavar="N",
        help="pipeline stages; repeatable (default: the fewest possible)",
    )
    for side in ("rows", "columns"):
        chosen.add_argument(
            f"--{side}", type=integer, metavar="N", help=f"{side} of arrays, banks and units (default: 4)"
        )


class _OfDesign(argparse.Action):
    """An option of a design: some begin one, the others are of the one that was begun last."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        designs = [dict(each) for each in namespace.designs]
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


def _add_given(parser: argparse.ArgumentParser) -> None:
    """Designs from files or from Python."""
    parser.set_defaults(designs=[])
    group = parser.add_argument_group(
        "your own designs beside ours",
        "each --verilog, --filelist or --amaranth begins a design; the options that follow belong to it",
    )

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
    """Where Yosys runs, and how long."""
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
    found = report(
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
        placed=options.placed,
        progress=tell,
    )
    print_drawn(to_table(found), soft_wrap=True)
    for path in found.files:
        tell(f"wrote {path}")
    if old is not None:
        print_foreign(f"since {options.compare}:\n{to_text(old, read_report(options.output / 'area.json'))}")
    return _area_outcome(found, unread)


def _area_outcome(found: "Report", unread: "list[str]") -> int:
    """Say what there is not, and give the exit code."""
    for line in unread:
        tell(f"not measured: {line}")
    missing = {energy.error: energy for energy in found.energies if energy.error}
    for energy in missing.values():
        tell(f"no energy of {energy.result.point.name} on {energy.result.target.label}: {energy.error}")
    cores = [core for core in found.cores if core.error]
    for core in cores:
        tell(f"not placed: {core.result.point.name}: {core.error}")
    if unread or (missing and all(energy.error for energy in found.energies)):
        return 2
    return 1 if found.failed or missing or cores else 0


def _points(options: argparse.Namespace) -> "tuple[list[Point] | None, list[str]]":
    """The designs that the options choose, ours and the user's, and a line for each of these that cannot be read."""
    from openmxu import yosys
    from openmxu.area.subject.given import read_given
    from openmxu.area.subject.points import beside_points

    chosen = _own_designs(options)
    designs = _given(options)
    if not designs:
        return chosen, []
    ours = chosen or beside_points()
    for design in designs:
        if design.name in [point.name for point in ours]:
            raise ValueError(f"--label must tell your designs from ours, not {design.name!r}")
    yosys.prepare(tell)
    given, unread = read_given(designs, options.timeout, tell)
    if not given:
        raise ValueError("; ".join(unread))
    return [*given, *ours], unread


def _given(options: argparse.Namespace) -> "list[Given]":
    """The user's designs, checked."""
    from openmxu.area.subject.given import AUTO, Given, listed, pair

    designs = []
    for each in options.designs:
        files, include, defines = listed(each["filelist"]) if "filelist" in each else ([], [], [])
        designs.append(
            Given(
                files=(*each.get("verilog", []), *files),
                top=each.get("top", ""),
                include=(*each.get("include", []), *include),
                defines=(*map(pair, each.get("define", [])), *defines),
                parameters=tuple(map(pair, each.get("param", []))),
                clock=each.get("clock", ""),
                reader=each.get("reader", AUTO),
                label=each.get("label", ""),
                amaranth=each.get("amaranth", ""),
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
    for name in (
        "format",
        "part",
        "width",
        "subnormals",
        "stages",
        "rows",
        "columns",
        "compare",
        "explain",
        "orders",
        "layer",
        "energy",
        "placed",
    ):
        if getattr(options, name) not in (None, [], False):
            raise ValueError(f"--{name} applies only to reports of our own designs, not to --peers")
    found = compare_peers(
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
    print_foreign(to_markdown(found))
    for name in COMPARISON_FILES:
        tell(f"wrote {options.output / name}")
    return 1 if found.failed else 0


def _own_designs(options: argparse.Namespace) -> "list[Point] | None":
    """The designs that the options choose; none where they leave them to the extent."""
    from openmxu.area.subject.points import SIDE, chosen_points, formats_of_widths

    formats = [*options.format, *formats_of_widths(options.width)]
    if formats:
        return chosen_points(
            options.part,
            formats,
            subnormals=options.subnormals or ("flush",),
            stages=options.stages or (),
            rows=SIDE if options.rows is None else options.rows,
            columns=SIDE if options.columns is None else options.columns,
        )
    for name in ("part", "subnormals", "stages", "rows", "columns"):
        if getattr(options, name) not in (None, []):
            raise ValueError(f"--{name} applies only to designs chosen with --format or --width")
    return None


def add_cache(commands: Any) -> None:
    parser = add_command(
        commands,
        "cache",
        _cache,
        "show or clear the cache: compiled simulations and models, areas, checks",
        "  openmxu cache\n  openmxu cache clear\n  openmxu cache clear --kind simulations",
    )
    actions = subcommands(parser, required=False)
    clear = add_command(
        actions,
        "clear",
        _cache_clear,
        "delete cache entries; they are built or measured again when needed",
        "  openmxu cache clear\n  openmxu cache clear --kind simulations",
    )
    clear.add_argument("--kind", metavar="NAME", help="one of the kinds that openmxu cache shows (default: all)")


def _cache(options: argparse.Namespace) -> None:
    from openmxu.runtime import cache

    bound, kinds = cache.size_bound(), cache.usage()
    total = cache.Usage(*map(sum, zip(*kinds.values(), strict=True)))
    if not total.entries:
        print(f"nothing is cached in {cache.directory()}")
        return
    print(cache.directory())
    for kind, (entries, size) in (kinds | {"total": total}).items():
        print(f"{kind:<12} {entries:>6} entries {size / 2**20:>9.1f} MiB")
    print(f"{'at most':<12} {'':>14} {bound / 2**20:>9.1f} MiB")


def _cache_clear(options: argparse.Namespace) -> None:
    from openmxu.runtime import cache

    entries, size = cache.clear(options.kind)
    print(f"deleted {entries} entries, {size / 2**20:.1f} MiB, from {cache.directory()}")
