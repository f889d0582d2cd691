"""Options of a unit that several commands have, and the engines that ``openmxu list`` shows."""

import argparse
from collections.abc import Iterator

from openmxu.cli.frame import Section, integer, offer
from openmxu.spec.formats import FORMATS, SUBNORMALS
from openmxu.spec.passes import PASSES


def add_array(parser: argparse.ArgumentParser, *, side: int | None, default: str = "") -> None:
    """Add size and pipeline of an array, of as many rows as columns unless said otherwise, and its ``terms``."""
    for name in ("rows", "columns"):
        parser.add_argument(
            f"--{name}",
            type=integer,
            default=side,
            metavar=name[0].upper(),
            help=f"{name} of the array (default: {default or side})",
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
        help="products that a processing element adds at once, with one rounding: 1, 2, 4 or 8 (default: 1); matmul "
        "and infer without a clock also take 16 and 32",
    )


MODIFIERS = (
    "mxfp8_e4m3, mxfp8_e5m2, mxfp6_e2m3, mxfp6_e3m2, mxfp4; without a clock also nvfp4, int8, and modifiers: /tensor, "
    "/row or /blockN for scales, /fp32, /saturate, /stochastic"
)
"""Operands besides plain formats, for help texts."""


def add_numerics(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add options that decide a product's bits, besides the array; ``several``: a unit for each format of operands."""
    offer(parser, precision=lambda: PASSES, subnormals=lambda: SUBNORMALS, operand=lambda: FORMATS)
    offer(parser, weight=lambda: FORMATS, accumulate=lambda: FORMATS, between=lambda: FORMATS)
    parser.add_argument(
        "--precision",
        default="default",
        metavar="NAME",
        help=f"one of {', '.join(PASSES)}: bf16 products in 1, 3, 6 or 9 passes (without it: default, 1 pass)",
    )
    parser.add_argument(
        "--subnormals", default="flush", metavar="MODE", help=f"one of {', '.join(SUBNORMALS)} (default: flush)"
    )
    parser.add_argument(
        "--operand",
        default="bf16",
        metavar="FORMAT,..." if several else "FORMAT",
        help=f"{'formats of operands, a unit for each' if several else 'format of operands'}: {', '.join(FORMATS)}, or "
        f"eXfY with X exponent and Y fraction bits, {MODIFIERS} (default: bf16)",
    )
    parser.add_argument("--weight", metavar="FORMAT", help="format of second operands (default: as --operand)")
    parser.add_argument(
        "--accumulate",
        default="fp32",
        metavar="FORMAT",
        help="format of products and sums (default: fp32, as in the hardware), with /truncate or /stochastic, and "
        "/guard0 to /guard3 for several terms",
    )
    parser.add_argument(
        "--between", metavar="FORMAT", help="format in which sums of tiles are added (default: as --accumulate)"
    )
    parser.add_argument("--seed", type=integer, default=0, metavar="N", help="seed of stochastic rounding (default: 0)")


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
