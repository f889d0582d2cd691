"""The commands ``list`` and ``completion``."""

import argparse
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

from rich.table import Table

from openmxu.cli.frame import Console, Section, add_command, make_parser, offered
from openmxu.spec.formats import FORMATS
from openmxu.spec.forms import FORMS

_SECTIONS = "openmxu.sections"
"""Group of entry points that give the sections of ``openmxu list``."""


def add_list(commands: Any) -> None:
    add_command(commands, "list", _list, "show designs, engines, area targets and boards")


def _list(options: argparse.Namespace) -> None:
    console = Console(highlight=False)
    # This package first, for the others build on it.
    for point in sorted(entry_points(group=_SECTIONS), key=lambda point: point.module != __package__):
        for title, rows in point.load()():
            console.print(f"[bold]{title}[/bold]")
            grid = Table(box=None, show_header=False)
            grid.add_column(no_wrap=True)
            grid.add_column()
            for row in rows:
                grid.add_row(*row)
            console.print(grid)


def sections() -> Iterator[Section]:
    """The sections of ``openmxu list`` about this package."""
    from openmxu.area import TARGETS
    from openmxu.catalog import EXPORTED
    from openmxu.cells.libraries import found_libraries

    yield "Designs (openmxu verilog DESIGN)", [(design.name, design.summary) for design in EXPORTED.values()]
    yield (
        "Formats",
        [(fmt.name, f"{fmt.exponent_width} exponent, {fmt.fraction_width} fraction bits") for fmt in FORMATS.values()],
    )
    yield "Forms of the arithmetic (openmxu verilog --form; areas and boards choose)", list(FORMS.items())
    libraries = [("", f"found: {path} ({source})") for path, source in found_libraries()]
    yield "Area targets (openmxu area --target)", [*TARGETS.items(), ("--liberty FILE", "any cell library"), *libraries]


def add_completion(commands: Any) -> None:
    import shtab

    parser = add_command(
        commands,
        "completion",
        _completion,
        "print a shell script that completes commands, options and their values",
        "  openmxu completion bash > ~/.local/share/bash-completion/completions/openmxu\n"
        "  openmxu completion zsh > ~/.zfunc/_openmxu",
    )
    parser.add_argument(
        "shell", metavar="SHELL", choices=shtab.SUPPORTED_SHELLS, help=f"one of {', '.join(shtab.SUPPORTED_SHELLS)}"
    )


def _completion(options: argparse.Namespace) -> None:
    import shtab

    parser = make_parser()
    for action, values in offered(parser):
        action.choices = list(values)
    print(shtab.complete(parser, options.shell))
