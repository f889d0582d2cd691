"""The front door: ``openmxu``.

Each command is two functions, one that adds its parser and one that runs it. Packages that a command needs
are imported when it runs, so that ``--help`` is quick and an extra that is not installed hinders no other
command.
"""

import argparse
import io
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from openmxu.files import NotStoredError, UnreadError, folder, reserve
from openmxu.formats import FORMATS, SUBNORMALS
from openmxu.streams import abandon_output, open_streams, printable

if TYPE_CHECKING:
    from openmxu_sim.product import Statistics
    from openmxu_sim.verify.report import Evidence

__all__ = ["main"]

_notes = Console(stderr=True, highlight=False, soft_wrap=True)


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(message)} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    0: done. 1: it was tried and failed. 2: the request cannot be met, said in one line. 130: Ctrl-C, 143: SIGTERM,
    129: SIGHUP, see :mod:`openmxu.signals`.
    """
    open_streams()
    logging.basicConfig(format="note: %(message)s", level=logging.WARNING, stream=sys.stderr)
    arguments = sys.argv[1:] if arguments is None else arguments
    options = argparse.Namespace(prog="openmxu")
    try:
        try:
            options = _parser(arguments).parse_args(arguments)
            code = int(options.run(options) or 0)
        except SystemExit as stop:  # help, version and mistakes
            code = int(stop.code or 0)
        if (error := abandon_output()) is not None:  # now: later nobody could say so
            raise error
        return code
    except KeyboardInterrupt:
        _tell("interrupted")
        return 130
    except ModuleNotFoundError as error:
        _complain(options, f"needs {error.name}, which is not installed: pip install 'openmxu[all]'")
        return 2
    except OSError as error:
        reason = abandon_output()
        if isinstance(error, UnreadError) or isinstance(reason, BrokenPipeError):
            return 0  # whoever read our output has seen enough
        _complain(options, error if reason is None else f"standard output cannot be written: {reason.strerror}")
        return 2 if reason is None else 1
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        _complain(options, error)
        return 2
    except RuntimeError as error:
        _complain(options, error)
        return 1


def _complain(options: argparse.Namespace, error: Exception | str) -> None:
    text = str(error) or "there is not enough memory"
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    # What a tool said last may take several lines; what was asked wrong takes one.
    lines = text.split("\n") if type(error) is not NotStoredError and isinstance(error, RuntimeError) else [text]
    with suppress(OSError):
        sys.stderr.write(f"{options.prog}: {chr(10).join(map(printable, lines))}\n")


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = _Parser(prog="openmxu", description="An open bf16 matrix unit: simulate, export, measure.",
                     epilog="See openmxu COMMAND --help for each command's options and examples.")
    parser.add_argument("--version", action="version", version=f"openmxu {version('openmxu')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    known = {add.__name__.removeprefix("_add_"): add for add in (
        _add_demo, _add_list, _add_matmul, _add_verilog, _add_area, _add_verify, _add_bench, _add_cache, _add_wave,
        _add_accuracy, _add_roofline, _add_board,
    )}
    # One that is named is all that is needed: the others would import what they have to offer.
    named = next((word for word in arguments if not word.startswith("-")), "")
    for add in [known[named]] if named in known else known.values():
        add(commands)
    return parser


def _command(commands: Any, name: str, run: Callable[[argparse.Namespace], int | None], summary: str,
             examples: str = "") -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, prog=parser.prog)
    return parser


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, not {text!r}") from None


def _range(text: str) -> range:
    found = re.fullmatch(r"(\d{1,18}):(\d{1,18})", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(f"must be a range such as 0:8, not {text!r}")
    return range(int(found[1]), int(found[2]))


@contextmanager
def _bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Progress of something countable: a bar on a terminal, elsewhere a line every ten seconds."""
    if _notes.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=_notes, transient=True) as progress:
            task = progress.add_task(label, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)
    else:
        last = time.monotonic()

        def tell(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > 10:
                last = time.monotonic()
                _tell(f"{label}: {done} of {total}")

        yield tell


def _tell(line: str) -> None:
    with suppress(OSError):  # nobody hears it, but the work goes on
        _notes.print(printable(line), markup=False)


# openmxu demo ---------------------------------------------------------------------------------------------


def _add_demo(commands: Any) -> None:
    parser = _command(
        commands, "demo", _demo, "classify real digits on the simulated unit, then compare areas",
        "  openmxu demo\n  openmxu demo -o /some/folder --engine pysim",
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("openmxu-demo"), metavar="DIR",
                        help="where the report goes (default: openmxu-demo)")
    parser.add_argument("--engine", default="auto", metavar="NAME",
                        help="one with a clock: compiled, verilator, icarus or pysim (default: the quickest there is)")


def _demo(options: argparse.Namespace) -> int:
    from openmxu.synth import FILES, report, to_table
    from openmxu_sim.demo import classify

    console = Console(soft_wrap=True, highlight=False)
    classifier = options.output / "classifier.json"
    with folder(options.output), reserve(classifier, *(options.output / name for name in FILES)) as outputs:
        console.print("[bold]1. Handwritten digits on the simulated matrix unit[/bold]")
        with _bar("simulating") as progress:
            outcome = classify(engine=options.engine, tell=_tell, progress=progress)
        outputs.write_text(classifier, json.dumps(outcome.as_dict(), indent=2) + "\n")
        console.print(outcome.text())
        console.print("\n[bold]2. What number formats cost[/bold]")
        found = report(options.output, extent="quick", progress=_tell)
        console.print(to_table(found))
    console.print(f"\nReport with plots: {options.output / 'report.html'}")
    return 0 if outcome.bit_equal and not found.failed else 1


# openmxu list ---------------------------------------------------------------------------------------------


def _add_list(commands: Any) -> None:
    _command(commands, "list", _list, "show designs, engines, area targets and boards that are there")


def _list(options: argparse.Namespace) -> None:
    from openmxu.catalog import CATALOG
    from openmxu.synth import TARGETS
    from openmxu.synth.discover import found_libraries
    from openmxu_boards import boards
    from openmxu_sim.cosim.simulators import find_simulator
    from openmxu_sim.engines import ENGINES
    from openmxu_sim.netlist.native import compiler_version

    console = Console(highlight=False)

    def table(title: str, rows: Sequence[tuple[str, str]]) -> None:
        console.print(f"[bold]{title}[/bold]")
        grid = Table(box=None, show_header=False)
        grid.add_column(no_wrap=True)
        grid.add_column()
        for row in rows:
            grid.add_row(*row)
        console.print(grid)

    found = {"golden": "always there", "pysim": "always there",
             "model": "numba" if find_spec("numba") else "not found (pip install 'openmxu[model]')"}
    try:
        found["compiled"] = compiler_version()
    except ValueError as error:
        found["compiled"] = str(error)
    engines = [(name, found.get(name) or find_simulator(name) or "not found") for name in ENGINES]
    table("Designs (openmxu verilog DESIGN)", [(d.name, d.summary) for d in CATALOG.values()])
    table("Formats", [(f.name, f"{f.exponent_width} exponent, {f.fraction_width} fraction bits")
                      for f in FORMATS.values()])
    table("Engines (openmxu matmul --engine)", engines)
    libraries = [("", f"found: {path} ({source})") for path, source in found_libraries()]
    table("Area targets (openmxu area --target)",
          [*TARGETS.items(), ("--liberty FILE", "any cell library"), *libraries])
    table("Boards (openmxu board build)", [(board.name, board.summary) for board in boards()])


# openmxu matmul -------------------------------------------------------------------------------------------


def _add_matmul(commands: Any) -> None:
    from openmxu_sim.engines import ENGINES
    from openmxu_sim.product import OUTPUTS, PRECISIONS

    parser = _command(
        commands, "matmul", _matmul, "multiply two matrices on the simulated unit",
        "  openmxu matmul A.npy B.npy -o C.npy\n"
        "  openmxu matmul A.npy B.npy --rows 4 --columns 4 --engine verilator --vcd wave.vcd\n"
        "  openmxu matmul A.npy B.npy --vcd wave.vcd --vcd-rows 120:128 --vcd-cycles 0:2000\n"
        "  openmxu matmul A.npy B.npy --precision highest --units 2 -o C.npy --stats stats.json\n"
        "  openmxu matmul A.npy B.npy --output bf16 -o C.npy",
    )
    parser.add_argument("a", type=Path, metavar="A.npy",
                        help="(M, K) activations; float32 and bf16 are taken as they are (a 2-byte void is bf16), "
                        "other real numbers are converted to float32")
    parser.add_argument("b", type=Path, metavar="B.npy", help="(K, N) weights, likewise")
    parser.add_argument("-o", "--output-file", type=Path, metavar="C.npy",
                        help="where the (M, N) result goes (default: shown on the terminal)")
    parser.add_argument("--rows", type=_integer, default=128, metavar="R", help="rows of the array (default: 128)")
    parser.add_argument("--columns", type=_integer, default=128, metavar="C",
                        help="columns of the array (default: 128)")
    parser.add_argument("--stages", type=_integer, default=1, metavar="S",
                        help="pipeline stages of a processing element, 1 to 7 (default: 1)")
    parser.add_argument("--precision", default="default", metavar="NAME",
                        help=f"one of {', '.join(PRECISIONS)}: bf16 products in 1, 3, 6 or 9 passes "
                        "(default: default)")
    parser.add_argument("--splitter", action="store_true",
                        help="let the unit cut fp32 into the parts of several passes, not this host")
    parser.add_argument("--subnormals", default="flush", metavar="MODE",
                        help=f"one of {', '.join(SUBNORMALS)} (default: flush)")
    parser.add_argument("--output", default="fp32", metavar="FORMAT",
                        help=f"one of {', '.join(OUTPUTS)} (default: fp32); bf16 is written as 2-byte voids, to be "
                        "read with .view(ml_dtypes.bfloat16)")
    parser.add_argument("--units", type=_integer, default=1, metavar="N",
                        help="share the columns of the result among N units (default: 1)")
    parser.add_argument("--engine", default="auto", metavar="NAME",
                        help=f"one of auto, {', '.join(ENGINES)} (default: auto)")
    parser.add_argument("--stalls", type=_integer, metavar="SEED",
                        help="let all streams wait now and then; the result stays the same")
    parser.add_argument("--stats", type=Path, metavar="FILE.json", help="write cycles, utilisation and more")
    parser.add_argument("--vcd", type=Path, metavar="FILE.vcd", help="write a waveform (engines with a clock)")
    for name, most in (("rows", "8"), ("columns", "8"), ("cycles", "4096")):
        parser.add_argument(f"--vcd-{name}", type=_range, metavar="A:B",
                            help=f"{name} in a waveform of the engine compiled: A to B - 1 (default: the first {most})")


def _matmul(options: argparse.Namespace) -> None:
    from openmxu_sim import simulate
    from openmxu_sim.engines.compiled.trace import Window, small_window
    from openmxu_sim.npy import read_matrix

    a, b = read_matrix(options.a, "A"), read_matrix(options.b, "B")
    given = [path.resolve() for path in (options.a, options.b, options.output_file, options.stats, options.vcd) if path]
    if len(set(given[2:])) < len(given[2:]) or set(given[:2]) & set(given[2:]):
        raise ValueError("outputs must be different files, and other ones than A and B")
    window = None
    if options.vcd_rows or options.vcd_columns or options.vcd_cycles:
        first = small_window(options.rows, options.columns)
        window = Window(options.vcd_rows or first.rows, options.vcd_columns or first.columns,
                        options.vcd_cycles or first.cycles)
    with reserve(options.output_file, options.stats, options.vcd) as outputs:
        with _bar("rows of the result") as progress:
            product = simulate(
                a, b, rows=options.rows, columns=options.columns, stages=options.stages,
                precision=options.precision, subnormals=options.subnormals, output=options.output,
                splitter=options.splitter, units=options.units, engine=options.engine, stalls=options.stalls,
                vcd=options.vcd, window=window, progress=progress,
            )
        # Files first: what cannot be said must not cost the result.
        if options.output_file is not None:
            buffer = io.BytesIO()
            # numpy has no name for bfloat16: it writes, and reads, two bytes.
            np.save(buffer, product.result if options.output == "fp32" else product.result.view("V2"))
            outputs.write_bytes(options.output_file, buffer.getbuffer())
        if options.stats is not None:
            outputs.write_text(options.stats, json.dumps(product.statistics.as_dict(), indent=2) + "\n")
        _tell_statistics(product.statistics, options.engine)
        if options.output_file is None:
            print(product.result)


def _tell_statistics(statistics: "Statistics", engine: str) -> None:
    if engine == "auto":
        _tell(f"engine {statistics.engine} ({statistics.reason})")
    _tell(f"{statistics.m}x{statistics.k}x{statistics.n} on {statistics.rows}x{statistics.columns}: "
          f"{statistics.cycles} cycles ({statistics.cycles_source}), "
          f"utilisation {statistics.utilisation:.1%}, {statistics.seconds:.2f} s")
    counted = statistics.busy, statistics.input_stalls, statistics.output_stalls
    if statistics.cycles and None not in counted:
        shares = ((count or 0) / (statistics.cycles * statistics.units) for count in counted)
        _tell("of these cycles: busy {:.1%}, stalled by input {:.1%}, stalled by output {:.1%}".format(*shares))


# openmxu verilog ------------------------------------------------------------------------------------------


def _add_verilog(commands: Any) -> None:
    from openmxu.catalog import CATALOG

    parser = _command(
        commands, "verilog", _verilog, "write a design as plain Verilog",
        "  openmxu verilog mxu --rows 8 --columns 8 -o mxu.v\n"
        "  openmxu verilog mxu --bus axi --rows 8 --columns 8 -o mxu.v --template instance.v --core mxu.core\n"
        "  openmxu verilog mxu --rows 8 --columns 8 --ports flat -o mxu.v --template instance.vhd\n"
        "  openmxu verilog adder --subnormals ieee --stages 2 -o adder.v\n"
        "  openmxu verilog multiplier --operand fp16 --result fp32 -o multiplier.v\n\n"
        "designs:\n" + "\n".join(f"  {d.name:<18} {d.summary}" for d in CATALOG.values()),
    )
    parser.add_argument("design", metavar="DESIGN", help="one of the designs below")
    parser.add_argument("-o", "--output-file", type=Path, metavar="FILE",
                        help="where it goes (default: the terminal)")
    parser.add_argument("--name", metavar="NAME", help="name of the top module (default: after the design)")
    parser.add_argument("--prefix", metavar="NAME",
                        help="what names of the modules inside begin with (default: the top module's name and a digest "
                        "of the design, so that equal names mean equal modules)")
    parser.add_argument("--ports", default="nested", metavar="NAME",
                        help="nested (weights__valid) or flat (weights_valid, which VHDL can name); default: nested")
    parser.add_argument("--template", type=Path, metavar="FILE",
                        help="write an instance of it, to copy from: in VHDL with its component if FILE ends with .vhd "
                        "or .vhdl, else in Verilog")
    parser.add_argument("--core", type=Path, metavar="FILE.core", help="write a FuseSoC core file beside the Verilog")
    for name, kind in _design_parameters().items():
        if kind is bool:
            parser.add_argument(f"--{name}", action="store_true", default=None, help=_PARAMETERS[name])
        else:
            parser.add_argument(f"--{name}", type=_integer if kind is int else str,
                                metavar="N" if kind is int else "NAME", help=_PARAMETERS[name])


_PARAMETERS = {
    "width": "bits of each operand of a product",
    "operand": "operand format: " + ", ".join(FORMATS) + ", or eXfY",
    "result": "result format of a multiplier, or of a unit's result stream: fp32 or the operand format",
    "source": "format a converter takes, or of the words on a unit's streams: fp32 or the operand format",
    "target": "format a converter gives",
    "subnormals": "one of " + ", ".join(SUBNORMALS),
    "stages": "pipeline stages",
    "rows": "rows of an array or unit",
    "columns": "columns of an array or unit",
    "depth": "rows of a unit's accumulator bank, a power of two",
    "splitter": "let the unit cut fp32 words into the parts that several passes multiply",
    "status": "give the unit counters and error flags",
    "bus": "of a unit: none (its own streams) or axi (AXI4-Stream, and registers on AXI4-Lite)",
}


def _design_parameters() -> dict[str, type]:
    """All parameters that some design has, with their types."""
    from openmxu.catalog import CATALOG

    return {name: type(default) for design in CATALOG.values() for name, default in design.domain.items()}


def _verilog(options: argparse.Namespace) -> None:
    from openmxu.catalog import CATALOG
    from openmxu.integration import to_core, to_template, to_vhdl_template
    from openmxu.names import check_names
    from openmxu.verilog import to_verilog

    if options.design not in CATALOG:
        raise ValueError(f"DESIGN must be one of {', '.join(CATALOG)}, not {options.design!r}")
    check_names(options.name, options.prefix, options.ports)
    if options.core is not None and (options.output_file is None
                                     or options.output_file.resolve().parent != options.core.resolve().parent):
        raise ValueError(f"core must be in the folder of the Verilog file, which -o names, not {options.core}")
    given = {name: getattr(options, name) for name in _design_parameters() if getattr(options, name) is not None}
    design = CATALOG[options.design]
    with reserve(options.output_file, options.template, options.core) as outputs:
        component = design.build(**given)
        if design.cells > 1024 and not given:
            _tell(f"writing {design.summary}: about 10 seconds")
        name = options.name or component.module_name
        text = to_verilog(component, name=name, prefix=options.prefix, ports=options.ports)
        template = ""
        if options.template is not None:
            write_template = to_vhdl_template if options.template.suffix in (".vhd", ".vhdl") else to_template
            template = write_template(component, text, name=name, ports=options.ports)
        if options.output_file is not None:
            outputs.write_text(options.output_file, text)
        if options.template is not None:
            outputs.write_text(options.template, template)
        if options.core is not None:
            outputs.write_text(options.core, to_core(options.output_file.name, name=name))
        if options.output_file is None:
            print(text)


# openmxu area ---------------------------------------------------------------------------------------------


def _add_area(commands: Any) -> None:
    from openmxu.synth import DEFAULT_TARGETS, PARTS, RECIPES, TARGETS, TIME_LIMIT

    parser = _command(
        commands, "area", _area, "measure and compare the area of number formats with Yosys",
        "  openmxu area -o report\n  openmxu area --quick -o report\n"
        "  openmxu area --full --liberty sky130_fd_sc_hd__tt_025C_1v80.lib.gz -o report\n"
        "  openmxu area --format e6f9 --format bf16 --part multiplier --part adder --subnormals ieee -o report\n"
        "  openmxu area --target ecp5 --target ice40 -o report --compare report/area.json\n"
        "  openmxu area --explain adder -o report",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR",
                        help="where report.html, report.md, summary.md, area.json, area.csv and the plots go")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_const", dest="extent", const="quick", default="default",
                        help="few designs, generic gates: under a minute")
    extent.add_argument("--full", action="store_const", dest="extent", const="full",
                        help="every format, width, part and option on all targets, recipes, and libraries that are "
                        "found: up to 45 minutes on two cores")
    parser.add_argument("--target", action="append", metavar="NAME",
                        help=f"one of {', '.join(TARGETS)}; may be given several times (default: "
                        f"{', '.join(DEFAULT_TARGETS)})")
    parser.add_argument("--liberty", action="append", type=Path, default=[], metavar="FILE",
                        help="a cell library, also compressed (.gz); may be given several times; so does the variable "
                        "OPENMXU_LIBERTY, and --full takes those below PDK_ROOT and of Debian's qflow")
    parser.add_argument("--recipe", action="append", metavar="NAME",
                        help=f"how gates are mapped, one of {', '.join(RECIPES)}; may be given several times "
                        "(default: area; with --full all)")
    chosen = parser.add_argument_group("designs of your own choice")
    chosen.add_argument("--format", action="append", default=[], metavar="NAME",
                        help="measure this format only: a name, or eXfY for X exponent and Y fraction bits; may be "
                        "given several times")
    chosen.add_argument("--part", action="append", default=[], metavar="NAME",
                        help=f"of what is chosen, one of {', '.join(map(repr, PARTS))}; may be given several times "
                        "(default: multiplier)")
    chosen.add_argument("--width", action="append", default=[], metavar="N",
                        help="fraction bits, 1 to 23, or a range as in 1-23, beside 8 exponent bits; may be given "
                        "several times")
    chosen.add_argument("--subnormals", action="append", metavar="MODE",
                        help="flush or ieee; may be given several times (default: flush)")
    chosen.add_argument("--stages", action="append", type=_integer, metavar="N",
                        help="pipeline stages; may be given several times (default: as few as there can be)")
    for side in ("rows", "columns"):
        chosen.add_argument(f"--{side}", type=_integer, metavar="N", help="of arrays, banks and units (default: 4)")
    parser.add_argument("--jobs", type=_integer, metavar="N",
                        help="Yosys processes at a time (default: one for each core)")
    parser.add_argument("--cluster", metavar="ADDRESS",
                        help="give the work to the workers of a Dask scheduler, as in tcp://host:8786")
    parser.add_argument("--timeout", type=float, default=TIME_LIMIT, metavar="SECONDS",
                        help="give a measurement up after so long, and report it as failed (default: %(default).0f)")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="say what has moved since that area.json")
    parser.add_argument("--explain", metavar="FIGURE",
                        help="measure nothing; of a figure, or a design, of the report in DIR say how it came about, "
                        "with the script")


def _area(options: argparse.Namespace) -> int:
    from openmxu.synth import report, to_table
    from openmxu.synth.compare import to_text
    from openmxu.synth.explain import explain
    from openmxu.synth.points import SIDE, chosen_points, formats_of_widths
    from openmxu.synth.schema import read_report

    if options.explain is not None:
        _print_foreign(explain(read_report(options.output / "area.json"), options.explain))
        return 0
    old = None if options.compare is None else read_report(options.compare)  # now: it may be in DIR
    points = None
    formats = [*options.format, *formats_of_widths(options.width)]
    choices = {"part": options.part, "subnormals": options.subnormals, "stages": options.stages, "rows": options.rows,
               "columns": options.columns}
    if formats:
        points = chosen_points(options.part, formats, subnormals=options.subnormals or ("flush",),
                               stages=options.stages or (), rows=SIDE if options.rows is None else options.rows,
                               columns=SIDE if options.columns is None else options.columns)
    elif asked := [name for name, value in choices.items() if value not in (None, [])]:
        name = asked[0]
        raise ValueError(f"{name} needs designs of your own choice: --format or --width")
    found = report(options.output, extent=options.extent, targets=options.target, liberty=options.liberty,
                   recipes=options.recipe, points=points, jobs=options.jobs, cluster=options.cluster,
                   limit=options.timeout, progress=_tell)
    Console(soft_wrap=True, highlight=False).print(to_table(found))
    for path in found.files:
        _tell(f"wrote {path}")
    if old is not None:
        _print_foreign(f"since {options.compare}:\n{to_text(old, read_report(options.output / 'area.json'))}")
    return 1 if found.failed else 0


def _print_foreign(text: str) -> None:
    """Print lines in which somebody else's words stand."""
    print("\n".join(map(printable, text.split("\n"))))


# openmxu verify -------------------------------------------------------------------------------------------


def _add_verify(commands: Any) -> None:
    parser = _command(
        commands, "verify", _verify, "check the arithmetic and the unit for all operands, states and stalls",
        "  openmxu verify\n  openmxu verify --thorough --json evidence.json\n"
        "  openmxu verify --only 'proof for all operands'\n"
        "  openmxu verify --faults --json faults.json",
    )
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--thorough", action="store_true",
                        help="everything, by both solvers and with larger samples: up to 90 minutes on two cores "
                        "(default: what every test run repeats, a few minutes)")
    extent.add_argument("--faults", action="store_true",
                        help="instead, damage files, kill commands, mislead tools and more, thousands of times, and "
                        "look for wrong numbers, lost results, hangs and leftovers: 20 minutes on two cores")
    parser.add_argument("--only", default="", metavar="TEXT", help="checks whose group or name contains this")
    parser.add_argument("--jobs", type=_integer, metavar="N",
                        help="checks at a time (default: one for each core); some need 3 GB of memory")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the evidence: rows, tools, machine")


def _verify(options: argparse.Namespace) -> int:
    from openmxu_sim.verify.checks import HOLDS
    from openmxu_sim.verify.report import MOST_JOBS, verify

    if options.jobs is not None and not 1 <= options.jobs <= MOST_JOBS:
        raise ValueError(f"jobs must be an integer from 1 to {MOST_JOBS}, not {options.jobs}")
    with reserve(options.json) as outputs:
        with _bar("checks") as progress:
            evidence = verify(thorough=options.thorough, faults=options.faults, only=options.only, jobs=options.jobs,
                              note=_tell, progress=progress)
        if options.json is not None:
            outputs.write_text(options.json, evidence.to_json())
        _print_evidence(evidence)
    return 1 if evidence.count(HOLDS) < len(evidence.rows) else 0


def _print_evidence(evidence: "Evidence") -> None:
    from openmxu_sim.verify.checks import HOLDS

    table = Table(box=None)
    for column in ("", "result", "looked at", "s"):
        table.add_column(column, justify="right" if column == "s" else "left")
    group = ""
    for row in evidence.rows:
        if row.group != group:
            group = row.group
            table.add_row(f"[bold]{group}[/bold]")
        said = row.status if row.status == HOLDS else f"[bold]{row.status}[/bold]"
        ends = "".join(f", {count:,} {name}" for name, count in row.counts.items())
        table.add_row(f"  {row.name}", said, f"{row.looked_at}{ends}", f"{row.seconds:.1f}")
        if row.detail:
            table.add_row("", "", Text(row.detail))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    console.print(table)
    wrong = len(evidence.rows) - evidence.count(HOLDS)
    console.print(f"\n{len(evidence.rows)} checks in {evidence.seconds:.0f} s: "
                  f"{'all hold' if not wrong else f'{wrong} do not hold'}")


# openmxu bench --------------------------------------------------------------------------------------------


def _add_bench(commands: Any) -> None:
    parser = _command(
        commands, "bench", _bench, "measure how fast the engines are on this machine",
        "  openmxu bench --quick\n  openmxu bench --json speed.json --plot speed.svg",
    )
    parser.add_argument("--quick", action="store_true",
                        help="small units only, about a minute (default: up to 256x256, ten minutes)")
    parser.add_argument("--limit", type=_integer, default=60, metavar="SECONDS",
                        help="leave out what would take an engine longer, from one size to the next (default: 60)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="write a plot of speed against size")


def _bench(options: argparse.Namespace) -> None:
    from openmxu_sim.throughput import bench, to_markdown

    if not 1 <= options.limit <= 1000000:
        raise ValueError(f"limit must be an integer from 1 to 1000000, not {options.limit}")
    if options.plot is not None:
        from openmxu_sim.throughput.plot import to_svg  # matplotlib is missing sooner than after ten minutes
    with reserve(options.json, options.plot) as outputs:
        with _bar("measurements") as progress:
            report = bench(quick=options.quick, limit=options.limit, note=_tell, progress=progress)
        if options.json is not None:
            outputs.write_text(options.json, report.to_json())
        if options.plot is not None:
            outputs.write_bytes(options.plot, to_svg(report))
        print(to_markdown(report))


# openmxu cache --------------------------------------------------------------------------------------------


def _add_cache(commands: Any) -> None:
    parser = _command(commands, "cache", _cache, "show or clear what is kept: compiled simulations and models, areas",
                      "  openmxu cache\n  openmxu cache clear\n  openmxu cache clear --kind simulations")
    actions = parser.add_subparsers(dest="action", metavar="[ACTION]", parser_class=_Parser)
    clear = _command(actions, "clear", _cache_clear, "delete what is kept; it is compiled again when it is needed",
                     "  openmxu cache clear\n  openmxu cache clear --kind simulations")
    clear.add_argument("--kind", metavar="NAME", help="one of those that openmxu cache shows (default: all)")


def _cache(options: argparse.Namespace) -> None:
    from openmxu import cache

    bound, kinds = cache.size_bound(), cache.usage()
    total = cache.Usage(*map(sum, zip(*kinds.values(), strict=True)))
    if not total.entries:
        print(f"nothing is kept in {cache.directory()}")
        return
    print(cache.directory())
    for kind, (entries, size) in (kinds | {"total": total}).items():
        print(f"{kind:<12} {entries:>6} entries {size / 2**20:>9.1f} MiB")
    print(f"{'at most':<12} {'':>14} {bound / 2**20:>9.1f} MiB")


def _cache_clear(options: argparse.Namespace) -> None:
    from openmxu import cache

    entries, size = cache.clear(options.kind)
    print(f"deleted {entries} entries, {size / 2**20:.1f} MiB, from {cache.directory()}")


# openmxu wave ---------------------------------------------------------------------------------------------


def _add_wave(commands: Any) -> None:
    parser = _command(
        commands, "wave", _wave, "draw which processing element is busy when, from a run of the simulated unit",
        "  openmxu wave\n  openmxu wave --rows 3 --columns 5 --stages 6 --m 7 --stalls 8 -o short-tiles.svg\n"
        "  openmxu wave --rows 128 --columns 128 --at 140,200,260,320",
    )
    parser.add_argument("-o", "--output-file", type=Path, default=Path("wavefront.svg"), metavar="FILE.svg",
                        help="where the picture goes (default: wavefront.svg)")
    parser.add_argument("--rows", type=_integer, default=8, metavar="R", help="rows of the array (default: 8)")
    parser.add_argument("--columns", type=_integer, default=8, metavar="C", help="columns of the array (default: 8)")
    parser.add_argument("--stages", type=_integer, default=1, metavar="S",
                        help="pipeline stages of a processing element, 1 to 7 (default: 1)")
    for name in ("m", "k", "n"):
        parser.add_argument(f"--{name}", type=_integer, metavar=name.upper(),
                            help={"m": "rows of the left matrix (default: as many as keep the array busy)",
                                  "k": "the inner dimension (default: 2R)",
                                  "n": "columns of the right matrix (default: 2C)"}[name])
    parser.add_argument("--stalls", type=_integer, metavar="SEED", help="let all streams wait now and then")
    parser.add_argument("--at", type=_integers, metavar="CYCLES",
                        help="cycles in which the array is shown, such as 9,12,15 (default: six of the run)")


def _integers(text: str) -> list[int]:
    return [_integer(part) for part in text.split(",")]


def _wave(options: argparse.Namespace) -> None:
    from openmxu.config import MxuConfig
    from openmxu_sim.stimulus import Stalls
    from openmxu_sim.wave import default_sizes, draw, observe, product

    config = MxuConfig(rows=options.rows, columns=options.columns, stages=options.stages)
    m, k, n = (default if given is None else given for given, default in
               zip((options.m, options.k, options.n), default_sizes(config), strict=True))
    stalls = None if options.stalls is None else Stalls(options.stalls)
    given = {"rows": config.rows, "columns": config.columns, "stages": config.stages, "m": m, "k": k, "n": n,
             "stalls": options.stalls, "at": ",".join(map(str, options.at or []))}
    made_by = " ".join(f"--{name} {value}" for name, value in given.items() if value not in (None, ""))
    with reserve(options.output_file) as outputs:
        with _bar("rows of the result") as progress:
            activity = observe(product(config, m, k, n), stalls=stalls, at=options.at, progress=progress)
        outputs.write_text(options.output_file, draw(activity, made_by=f"openmxu wave {made_by}"))
    _tell(f"wrote {options.output_file}: {m}x{k}x{n} on {config.rows}x{config.columns}, {len(activity.tiles)} tiles, "
          f"{activity.cycles} cycles, utilisation {activity.utilisation:.1%}")


# openmxu accuracy, openmxu roofline -----------------------------------------------------------------------


def _add_accuracy(commands: Any) -> None:
    parser = _command(
        commands, "accuracy", _accuracy, "measure the errors of products in 1, 3, 6 and 9 passes",
        "  openmxu accuracy\n  openmxu accuracy --seed 7 --json accuracy.json",
    )
    parser.add_argument("--seed", type=_integer, default=0, metavar="N", help="of the operands (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the errors")


def _accuracy(options: argparse.Namespace) -> None:
    from openmxu_sim.studies.accuracy import measure, to_markdown

    if options.seed < 0:
        raise ValueError(f"seed must be an integer >= 0, not {options.seed}")
    with reserve(options.json) as outputs:
        with _bar("products") as progress:
            found = measure(engine="model" if find_spec("numba") else "golden", seed=options.seed, progress=progress)
        if options.json is not None:
            outputs.write_text(options.json, found.to_json())
        print(to_markdown(found))


def _add_roofline(commands: Any) -> None:
    parser = _command(
        commands, "roofline", _roofline, "derive what bf16 in memory brings to layers of real networks",
        "  openmxu roofline\n"
        "  openmxu roofline --rows 32 --columns 32 --clock 200 --bandwidth 12.8 --plot roofline.svg",
    )
    for name in ("rows", "columns"):
        parser.add_argument(f"--{name}", type=_integer, default=128, metavar=name[0].upper(),
                            help=f"{name} of the array (default: 128)")
    parser.add_argument("--stages", type=_integer, default=1, metavar="S",
                        help="pipeline stages of a processing element, 1 to 7 (default: 1)")
    parser.add_argument("--clock", type=_number, default=700.0, metavar="MHz", help="of the unit (default: 700)")
    parser.add_argument("--bandwidth", type=_number, default=300.0, metavar="GB/s", help="of the memory (default: 300)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="write the roofline")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, not {text!r}") from None


def _roofline(options: argparse.Namespace) -> None:
    from openmxu_sim.studies.layers import Machine, roofline, to_markdown

    machine = Machine(options.rows, options.columns, options.stages, options.clock, options.bandwidth)
    with reserve(options.json, options.plot) as outputs:
        found = roofline(machine)
        if options.json is not None:
            outputs.write_text(options.json, found.to_json())
        if options.plot is not None:
            from openmxu_sim.studies.plot import to_svg

            outputs.write_bytes(options.plot, to_svg(found))
        print(to_markdown(found))


# openmxu board --------------------------------------------------------------------------------------------


def _add_board(commands: Any) -> None:
    parser = commands.add_parser("board", help="list boards, build bitstreams with a self-test",
                                 description="List boards, build bitstreams with a self-test.")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=_Parser)
    _command(actions, "list", _board_list, "show the boards")
    build = _command(actions, "build", _board_build, "build the self-test's bitstream for a board",
                     "  openmxu board build icebreaker -o build")
    build.add_argument("board", metavar="BOARD", help="a name from openmxu board list")
    build.add_argument("-o", "--output", type=Path, required=True, metavar="DIR",
                       help="where bitstream, reports and logs go")


def _board_list(options: argparse.Namespace) -> None:
    from openmxu_boards import boards

    for board in boards():
        print(f"{board.name:<14} {board.summary}")


def _board_build(options: argparse.Namespace) -> None:
    from openmxu_boards import build

    print(build(options.board, options.output, progress=_tell))
