"""The command of this package: ``board``."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openmxu.cli import Section, add_command, subcommands, tell

__all__ = ["add_board", "sections"]


def add_board(commands: Any) -> None:
    parser = add_command(commands, "board", None, "list boards, build bitstreams with a self-test")
    actions = subcommands(parser, required=True)
    add_command(actions, "list", _board_list, "show the boards")
    build = add_command(
        actions,
        "build",
        _board_build,
        "build the self-test's bitstream for a board",
        "  openmxu board build icebreaker -o build",
    )
    build.add_argument("board", metavar="BOARD", help="a name from openmxu board list")
    build.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="where bitstream, reports and logs go"
    )


def _board_list(options: argparse.Namespace) -> None:
    from openmxu_boards import boards

    for board in boards():
        print(f"{board.name:<14} {board.summary}")


def _board_build(options: argparse.Namespace) -> None:
    from openmxu_boards import build

    print(build(options.board, options.output, progress=tell))


def sections() -> Iterator[Section]:
    """What ``openmxu list`` shows of this package."""
    from openmxu_boards import boards

    yield "Boards (openmxu board build)", [(board.name, board.summary) for board in boards()]
