"""From a board's name to its bitstream."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from openmxu import process
from openmxu.files import folder, reserve
from openmxu.yosys import wasm
from openmxu_boards import tools
from openmxu_boards.report import BuildReport, read_clocks, read_utilisation
from openmxu_boards.targets import Board, SelfTestTop, find_board

__all__ = ["SEED", "build"]

SEED = 1
"""Seed of nextpnr, so that a build can be repeated bit for bit."""

_NAME = "selftest"
_SUMMARY = "report.json"

_STEPS = {
    "yosys": "synthesis with Yosys, about half a minute",
    "nextpnr-ice40": "placement and routing with nextpnr, about a minute",
    "nextpnr-ecp5": "placement and routing with nextpnr, about a minute",
    "icepack": "packing the bitstream",
    "ecppack": "packing the bitstream",
}


def build(board: str, output: Path | str, *, progress: Callable[[str], None] | None = None) -> BuildReport:
    """Build the self-test's bitstream for a board.

    Leaves in ``output``: ``selftest.bin`` or ``selftest.bit``, ``report.json`` (see :class:`BuildReport`),
    nextpnr's own ``nextpnr.json``, and ``yosys.log`` and ``nextpnr.log``. Their places are found before the tools run.
    If a tool fails, what was there before still is, and nothing else.

    Parameters
    ----------
    board
        Its name.
    output
        A directory; it is made if there is none.
    progress
        Called with one line of progress.

    Raises
    ------
    ValueError
        There is no such board.
    OSError
        A tool is not installed, or ``output`` cannot be written.
    RuntimeError
        A tool failed, or the design is too slow for the board's clock.
    openmxu.files.NotStoredError
        A finished file can no longer be written; the text says where it was saved.
    """
    target = find_board(board)
    output = Path(output)
    tell = progress or (lambda line: None)
    files = _plan(target)
    commands = json.loads(files[f"build_{_NAME}.json"])["commands"]
    tools.check([command[0] for command in commands])
    bitstream = f"{_NAME}.{target.bitstream}"
    written = {
        "yosys.log": f"{_NAME}.rpt",
        "nextpnr.log": f"{_NAME}.tim",
        "nextpnr.json": "nextpnr.json",
        bitstream: bitstream,
        _SUMMARY: _SUMMARY,
    }
    with folder(output), reserve(*(output / name for name in written)) as outputs, process.workspace() as work:
        for name, content in files.items():
            (work / name).write_text(content)
        seconds = {}
        for number, command in enumerate(commands, 1):
            tell(f"{target.name}, step {number} of {len(commands)}: {_STEPS[command[0]]}")
            start = time.monotonic()
            wasm.run(command[0], command[1:], work, tell)
            seconds[command[0]] = time.monotonic() - start
        report = _report(target, output / bitstream, work / "nextpnr.json", seconds)
        (work / _SUMMARY).write_text(report.to_json())
        # The summary comes last: where it is, everything is.
        for name, source in written.items():
            outputs.write_bytes(output / name, (work / source).read_bytes())
    return report


def _report(board: Board, bitstream: Path, figures: Path, seconds: dict[str, float]) -> BuildReport:
    """The report on a build; ``figures``: nextpnr's, ``seconds``: of each tool.

    Raises
    ------
    RuntimeError
        The design is too slow.
    """
    read = json.loads(figures.read_text())
    report = BuildReport(
        board=board,
        bitstream=bitstream,
        clocks=read_clocks(read),
        utilisation=read_utilisation(read),
        versions=tools.versions(list(seconds)),
        seed=SEED,
        seconds=seconds,
    )
    if not report.met:
        slow = "; ".join(str(clock) for clock in report.clocks if not clock.met)
        raise RuntimeError(f"no bitstream for {board.name}: {slow}")
    return report


def _plan(board: Board) -> dict[str, str]:
    """The files that the tools read, and the list of their commands."""
    platform = board.new_platform()
    # No places in our sources: they are the machine's. No failure of nextpnr where the design is too slow:
    # its figures are wanted then, too.
    plan = platform.build(
        SelfTestTop(board),
        name=_NAME,
        do_build=False,
        emit_src=False,
        nextpnr_opts=f"--seed {SEED} --report nextpnr.json --timing-allow-fail",
        **board.overrides,
    )
    return dict(plan.files)
