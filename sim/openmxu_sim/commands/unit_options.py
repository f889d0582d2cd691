"""Options of a unit that several commands have, and the engines that ``openmxu list`` shows."""

import argparse
from collections.abc import Iterator

from openmxu.cli.frame import Section, integer


def add_array(parser: argparse.ArgumentParser, *, side: int) -> None:
    """Add size and pipeline of an array, of as many rows as columns unless said otherwise, and its ``terms``."""
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
    parser.add_argument(
        "--terms",
        type=integer,
        default=1,
        metavar="N",
        help="products that a processing element adds at once, with one rounding: 1, 2, 4 or 8 (default: 1)",
    )


def sections() -> Iterator[Section]:
    """Yield the sections of this package in ``openmxu list``."""
    from openmxu.runtime.native import compiler_version
    from openmxu_sim.cosim.simulators import find_simulator
    from openmxu_sim.engines import ENGINES

    texts = dict.fromkeys(("golden", "pysim"), "always there")
    try:
        compiler = compiler_version()
    except ValueError as error:
        compiler = str(error)
    texts |= dict.fromkeys(("model", "compiled"), compiler)
    yield (
        "Engines (openmxu matmul --engine)",
        [(name, texts.get(name) or find_simulator(name) or "not found") for name in ENGINES],
    )
