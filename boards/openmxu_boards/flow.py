"""From a board's name to its bitstream."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from openmxu_boards import tools
from openmxu_boards.report import BuildReport, read_clocks, read_utilisation
from openmxu_boards.targets import Board, SelfTestTop, find_board

__all__ = ["SEED", "build"]

SEED = 1
"""Of nextpnr, so that a build can be repeated bit for bit."""

_NAME = "selftest"

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
    nextpnr's own ``nextpnr.json``, and ``yosys.log`` and ``nextpnr.log``. If anything goes wrong, nothing is
    left there, and what was there before still is.

    Parameters
    ----------
    board
        Its name.
    output
        A directory; it is made if there is none.
    progress
        Told what is being done.

    Raises
    ------
    ValueError
        There is no such board.
    OSError
        A tool is not installed, or ``output`` cannot be written.
    RuntimeError
        A tool failed, or the design is too slow for the board's clock.
    """
    target = find_board(board)
    output = Path(output)
    tell = progress or (lambda line: None)
    files = _plan(target)
    commands = json.loads(files[f"build_{_NAME}.json"])["commands"]
    names = [command[0] for command in commands]
    tools.check(names)
    with _staging(output) as work:
        for name, content in files.items():
            (work / name).write_text(content)
        seconds = {}
        for number, command in enumerate(commands, 1):
            tell(f"{target.name}, step {number} of {len(commands)}: {_STEPS[command[0]]}")
            start = time.monotonic()
            tools.run(command, work, tell)
            seconds[command[0]] = time.monotonic() - start
        figures = json.loads((work / "nextpnr.json").read_text())
        bitstream = f"{_NAME}.{target.bitstream}"
        report = BuildReport(
            board=target, bitstream=output / bitstream, clocks=read_clocks(figures),
            utilisation=read_utilisation(figures), versions=tools.versions(names), seed=SEED, seconds=seconds,
        )
        if not report.met:
            slow = "; ".join(str(clock) for clock in report.clocks if not clock.met)
            raise RuntimeError(f"no bitstream for {target.name}: {slow}")
        (work / "report.json").write_text(report.to_json())
        (work / f"{_NAME}.rpt").rename(work / "yosys.log")
        (work / f"{_NAME}.tim").rename(work / "nextpnr.log")
        # The summary comes last: where it is, everything is.
        for name in ("yosys.log", "nextpnr.log", "nextpnr.json", bitstream, "report.json"):
            os.replace(work / name, output / name)
    return report


def _plan(board: Board) -> dict[str, str]:
    """The files that the tools read, and the list of their commands."""
    platform = board.new_platform()
    # No places in our sources: they are the machine's. No failure of nextpnr where the design is too slow:
    # its figures are wanted then, too.
    plan = platform.build(
        SelfTestTop(board), name=_NAME, do_build=False, emit_src=False,
        nextpnr_opts=f"--seed {SEED} --report nextpnr.json --timing-allow-fail", **board.overrides,
    )
    return dict(plan.files)


@contextmanager
def _staging(output: Path) -> Iterator[Path]:
    """A directory to work in, inside ``output``; afterwards it is gone, as is ``output`` if new and empty."""
    new = not output.exists()
    if not new and not output.is_dir():
        raise NotADirectoryError(f"output must be a directory, not the file {output}")
    try:
        output.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".build-", dir=output))
    except OSError as error:
        raise type(error)(f"output {output} cannot be written: {error.strerror}") from None
    try:
        yield work
    finally:
        shutil.rmtree(work)
        if new and not any(output.iterdir()):
            output.rmdir()
