"""The command of this package: ``board``."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openmxu.cli import Section, add_command, integer, subcommands, tell
from openmxu.commands import add_parameters, requested
from openmxu.files import reserve

__all__ = ["add_board", "sections"]


def add_board(commands: Any) -> None:
    parser = add_command(commands, "board", None, "list boards, build bitstreams with a self-test, route any design")
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
    _add_route(actions)


def _add_route(actions: Any) -> None:
    from openmxu_boards.route import DEVICES

    parser = add_command(
        actions,
        "route",
        _board_route,
        "place and route any design of the catalog, between registers: its clock and its cells",
        "  openmxu board route pe --stages 6\n"
        "  openmxu board route mxu --rows 4 --columns 4 --source bf16 --depth 16 --stages 7 --device ecp5-85f\n\n"
        "devices:\n" + "\n".join(f"  {name:<10} {device.title}" for name, device in DEVICES.items()),
    )
    parser.add_argument("design", metavar="DESIGN", help="a name from openmxu list")
    parser.add_argument("--device", default="ecp5-25f", metavar="NAME", help="one of those below (default: ecp5-25f)")
    parser.add_argument(
        "--seeds", type=integer, default=5, metavar="N", help="runs of nextpnr, each with another seed (default: 5)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON, too")
    add_parameters(parser)


def _board_list(options: argparse.Namespace) -> None:
    from openmxu_boards import boards

    for board in boards():
        print(f"{board.name:<14} {board.summary}")


def _board_build(options: argparse.Namespace) -> None:
    from openmxu_boards import build

    print(build(options.board, options.output, progress=tell))


def _board_route(options: argparse.Namespace) -> None:
    from openmxu_boards.route import find_device, route

    find_device(options.device)
    if not 1 <= options.seeds <= 100:
        raise ValueError(f"seeds must be from 1 to 100, not {options.seeds}")
    design, given = requested(options)
    with reserve(options.json) as outputs:
        routed = route(design.build(**given), options.device, range(1, options.seeds + 1), progress=tell)
        outputs.write_text(options.json, routed.to_json())
    print(routed)


def sections() -> Iterator[Section]:
    """What ``openmxu list`` shows of this package."""
    from openmxu_boards import boards
    from openmxu_boards.route import DEVICES

    yield "Boards (openmxu board build)", [(board.name, board.summary) for board in boards()]
    devices = [(name, f"{device.title}; stages={device.stages} suits it") for name, device in DEVICES.items()]
    yield "Devices (openmxu board route)", devices
