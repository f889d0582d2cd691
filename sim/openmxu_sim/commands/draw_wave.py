"""The command ``wave``."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmxu.cli.frame import add_command, bar, integer, tell
from openmxu.runtime.files import reserve

if TYPE_CHECKING:
    from openmxu.spec.config import MxuConfig
from openmxu_sim.commands.unit_options import add_array

_PAGES = (".html", ".htm")
"""Suffixes of files that are pages."""


def add_wave(commands: Any) -> None:
    parser = add_command(
        commands,
        "wave",
        _wave,
        "draw when each processing element is busy, or write a page in which the unit runs",
        "  openmxu wave\n  openmxu wave -o run.html\n  openmxu wave --rows 128 --columns 128 -o run.html\n"
        "  openmxu wave --rows 3 --columns 5 --stages 6 --m 7 --stalls 8 -o short-tiles.svg\n"
        "  openmxu wave --rows 128 --columns 128 --at 140,200,260,320\n  openmxu wave --terms 4 -o run.html",
    )
    parser.add_argument(
        "-o",
        "--output-file",
        type=Path,
        default=Path("wavefront.svg"),
        metavar="FILE",
        help="output: an image (.svg) or a page (.html); default: wavefront.svg. In a page, a unit of up to 8x8 runs "
        "live, with matrices of your own. Without other options the page needs no compiler; with some it needs the "
        "package ziglang, else the page shows a recorded run, as it does of larger units",
    )
    add_array(parser, side=None, default="8; in a page 4, or N if it is more")
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

    suffix = options.output_file.suffix.lower()
    side = max(4, options.terms) if suffix in _PAGES else 8
    options.rows, options.columns = (side if each is None else each for each in (options.rows, options.columns))
    config = MxuConfig(rows=options.rows, columns=options.columns, stages=options.stages, terms=options.terms)
    sizes = [size for size in (options.m, options.k, options.n) if size is not None]
    if suffix not in ("", ".svg", *_PAGES):
        raise ValueError(f"output must end in .svg, .html or .htm, not {str(options.output_file)!r}")
    if suffix not in _PAGES:
        _wave_drawn(options, config, draw)
    elif options.at is not None:
        raise ValueError("at requires an image, an output that ends in .svg, not a page")
    elif {config.rows, config.columns} <= set(SIZES) and max(sizes, default=0) <= MOST_SIDE:
        _wave_live(options, config)
    else:
        _wave_drawn(options, config, heat_page)


def _wave_sizes(options: argparse.Namespace, config: "MxuConfig") -> tuple[int, int, int]:
    """Return M, K and N: those given, or the defaults."""
    from openmxu_sim.wave import default_sizes

    pairs = zip((options.m, options.k, options.n), default_sizes(config), strict=True)
    m, k, n = (default if size is None else size for size, default in pairs)
    return m, k, n


def _made_by(options: argparse.Namespace, m: int, k: int, n: int) -> str:
    """Return the command that gives the same output again."""
    values = {name: getattr(options, name) for name in ("rows", "columns", "stages")}
    values |= {"terms": options.terms if options.terms > 1 else None, "m": m, "k": k, "n": n}
    values |= {"stalls": options.stalls, "at": ",".join(map(str, options.at or []))}
    return "openmxu wave " + " ".join(f"--{name} {value}" for name, value in values.items() if value not in (None, ""))


def _wave_drawn(options: argparse.Namespace, config: "MxuConfig", draw: Callable[..., str]) -> None:
    """Draw a run of the unit as a picture or as a heat map."""
    from openmxu_sim.operands.stimulus import Stalls
    from openmxu_sim.wave import observe, product

    m, k, n = _wave_sizes(options, config)
    with reserve(options.output_file) as outputs:
        stalls = None if options.stalls is None else Stalls(options.stalls)
        with bar("beats of results") as progress:
            activity = observe(product(config, m, k, n), stalls=stalls, at=options.at, progress=progress)
        outputs.write_text(options.output_file, draw(activity, made_by=_made_by(options, m, k, n)))
    tell(
        f"wrote {options.output_file}: {m}x{k}x{n} on {config.rows}x{config.columns}, {len(activity.tiles)} tiles, "
        f"{activity.cycles} cycles, utilisation {activity.utilisation:.1%}"
    )


def _wave_live(options: argparse.Namespace, config: "MxuConfig") -> None:
    from openmxu.spec.tiling import cycles
    from openmxu_sim.wave import MOST_SIDE, find_shipped, has_zig, live_page, random_run, record_run

    m, k, n = (min(size, MOST_SIDE) for size in _wave_sizes(options, config))
    with reserve(options.output_file) as outputs:
        made_by = _made_by(options, m, k, n)
        page, count = find_shipped(made_by), cycles(config, m, k, n)
        live = page is not None or has_zig()
        if page is None:
            unit = config.rows, config.columns, config.stages
            run = record_run(random_run(*unit, (m, k, n), stalls=options.stalls, terms=config.terms))
            page, count = live_page(run, live=live, made_by=made_by), run.cycles
        outputs.write_text(options.output_file, page)
    shown = "a live unit" if live else "a recorded run"
    tell(f"wrote {options.output_file}: {shown}, {m}x{k}x{n} on {config.rows}x{config.columns}, {count} cycles")
    if not live:
        from openmxu.runtime.extras import install

        tell(f"for a unit that runs in the page, install the package ziglang: {install('zig')}")
