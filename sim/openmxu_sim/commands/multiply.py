"""The command ``matmul``."""

import argparse
import json
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmxu.cli.frame import add_command, bar, integer, interval, offer, tell
from openmxu.runtime.files import reserve

if TYPE_CHECKING:
    from openmxu_sim.engines.compiled.trace import Window
    from openmxu_sim.product import Statistics
from openmxu_sim.commands.unit_options import add_array, add_numerics


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
    parser.add_argument("b", type=Path, metavar="B.npy", help="(K, N) weights, of the same types")
    parser.add_argument(
        "-o",
        "--output-file",
        type=Path,
        metavar="C.npy",
        help="file for the (M, N) result (default: shown on the terminal)",
    )
    add_array(parser, side=128)
    add_numerics(parser)
    _add_results(parser)
    _add_run(parser)
    _add_records(parser)
    # Options that are not given are as above, or as on the board.
    parser.set_defaults(rows=None, columns=None, stages=None, terms=None, subnormals=None, operand=None, output=None)


def _add_results(parser: argparse.ArgumentParser) -> None:
    """Add options of the unit that only one product has."""
    parser.add_argument(
        "--splitter",
        action="store_true",
        help="let the unit, not the host, split fp32 operands into the parts for several passes",
    )
    parser.add_argument(
        "--output",
        default="fp32",
        metavar="FORMAT",
        help="format of the result: fp32 or the operand format (default: fp32); bf16 is written as 2-byte voids: read "
        "it with .view(ml_dtypes.bfloat16)",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    """Add options for the computation of the product."""
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
    offer(parser, engine=lambda: ("auto", *ENGINES, BOARD))
    parser.add_argument(
        "--port", metavar="PORT", help="the board's serial port (default: auto, the first one on which a board answers)"
    )
    parser.add_argument(
        "--stalls", type=integer, metavar="SEED", help="let all streams stall at random; the result stays the same"
    )


def _add_records(parser: argparse.ArgumentParser) -> None:
    """Add options for the files beside the result."""
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

    window = _window(options)
    with reserve(options.output_file, options.stats, options.vcd) as outputs:
        a, b = read_matrix(options.a, "A"), read_matrix(options.b, "B")
        with bar("beats of results") as progress:
            given = {name: getattr(options, name) for name in signature(simulate).parameters if name in options}
            product = simulate(**given | {"a": a, "b": b, "window": window, "progress": progress})
        # Files first: statistics that cannot be printed must not cost the result.
        if options.output_file is not None:
            outputs.write_bytes(options.output_file, to_npy(product.result))
        outputs.write_text(options.stats, json.dumps(product.statistics.as_dict(), indent=2) + "\n")
        _tell_statistics(product.statistics, options.engine)
        if options.output_file is None:
            print(product.result)


def _window(options: argparse.Namespace) -> "Window | None":
    """Return the window of the waveform, if an option sets it."""
    from openmxu.spec.config import MxuConfig
    from openmxu_sim.engines.compiled.trace import Window, small_window

    if not (options.vcd_rows or options.vcd_columns or options.vcd_cycles):
        return None
    sizes = {name: getattr(options, name) for name in ("rows", "columns", "terms")}
    first = small_window(MxuConfig(**{name: size for name, size in sizes.items() if size is not None}))
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
