"""The commands ``demo``, ``verify`` and ``bench``, which show what this installation does."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openmxu.cli.frame import (
    Console,
    add_command,
    bar,
    integer,
    offer,
    print_drawn,
    print_foreign,
    print_markdown,
    tell,
)
from openmxu.runtime.extras import evidence, study
from openmxu.runtime.files import folder, reserve


def add_demo(commands: Any) -> None:
    from openmxu_sim.engines import CLOCKED

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
    offer(parser, engine=lambda: ("auto", *CLOCKED))


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
        print_foreign(outcome.text())
        console.print("\n[bold]2. What number formats cost[/bold]")
        areas = report(options.output, extent="quick", progress=tell)
        outputs.write_text(classifier, json.dumps(outcome.as_dict(), indent=2) + "\n")
        print_drawn(to_table(areas), soft_wrap=True)
    console.print(f"\nReport with plots: {options.output / 'report.html'}")
    return 0 if outcome.bit_equal and not areas.failed else 1


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
    text = "run only the checks whose group or name contains TEXT, or one of several; repeatable"
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help=text)
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
    run: Callable[[argparse.Namespace], int] = evidence("command", "verify").run
    return run(options)


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
        "--only",
        choices=("engines", "command", "products", "training"),
        help="one kind of measurement: engines with a clock, openmxu matmul, products of the model, training steps",
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
    speed = study("speed", "bench")
    if not 1 <= options.limit <= 1000000:
        raise ValueError(f"limit must be an integer from 1 to 1000000, not {options.limit}")
    if options.plot is not None:
        plot = study("speed.speed_plot", "bench")  # matplotlib is missing sooner than after ten minutes
    old = None if options.compare is None else speed.read_report(options.compare)  # now: it may be --json
    with reserve(options.json, options.plot) as outputs:
        with bar("measurements") as progress:
            report = speed.bench(
                quick=options.quick, only=options.only, limit=options.limit, note=tell, progress=progress
            )
        outputs.write_text(options.json, report.to_json())
        if options.plot is not None:
            outputs.write_bytes(options.plot, plot.to_svg(report))
        print_markdown(speed.to_markdown(report))
        if old is not None:
            print_markdown(speed.compare(old, report))
