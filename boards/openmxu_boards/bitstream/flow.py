"""From a board's name to its bitstream.

::

    design ─▶ RTLIL, each element once ─▶ Yosys ─┬─▶ nextpnr, seed 1 ─┬─▶ the fastest ─▶ packer ─▶ bitstream
                                                 ├─▶ nextpnr, seed 2 ─┤
                                                 └─▶ …               ─┘
"""

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from openmxu.export.provenance import provenance
from openmxu.runtime import process
from openmxu.runtime.files import folder, reserve
from openmxu.runtime.machine import cores, machine_name
from openmxu.yosys import yowasp
from openmxu_boards import tools
from openmxu_boards.bitstream.placement import read_placement
from openmxu_boards.bitstream.plan import FIGURES, PLACEMENT, ROUTED, SUMMARY, Plan, make_plan
from openmxu_boards.bitstream.report import BuildReport, Clock, read_clocks, read_path, read_utilisation
from openmxu_boards.bitstream.top import Design, selftest
from openmxu_boards.devices.boards import Board, find_board

MOST_SEEDS = 100
"""The most runs of nextpnr in a build."""


def build(
    board: str | Board,
    output: Path | str,
    *,
    design: Design = selftest,
    name: str = "selftest",
    seeds: Sequence[int] | None = None,
    progress: Callable[[str], None] | None = None,
) -> BuildReport:
    """Build the bitstream of a design for a board, by default that of the self-test.

    Leaves in ``output``: ``NAME.bin``, ``NAME.bit`` or ``NAME.fs``, ``report.json`` (see :class:`BuildReport`),
    the drawing ``placement.svg`` of its parts, nextpnr's own ``nextpnr.json``, the netlist after routing as
    ``routed.json`` where the bitstream cannot be unpacked, and ``yosys.log`` and ``nextpnr.log``. Their places are
    reserved before the tools run. If a tool fails, earlier files stay unchanged, and no new ones appear.

    Parameters
    ----------
    board
        Its name, or a board.
    output
        A directory; it is made if there is none.
    design, name
        The function that makes the design, see :data:`~openmxu_boards.bitstream.top.Design`, and the bitstream's name.
    seeds
        Seeds of nextpnr, by default the board's; the fastest run makes the bitstream. At most as many run at a time as
        there are cores.
    progress
        Called with one line of progress.

    Raises
    ------
    ValueError
        There is no such board, its clock cannot be made, it lacks a UART that the design has, or there is no seed.
    OSError
        A tool is not installed, or ``output`` cannot be written.
    RuntimeError
        A tool failed, or the design is too slow for the board's clock.
    openmxu.runtime.files.NotStoredError
        A finished file can no longer be written.
    """
    target = find_board(board) if isinstance(board, str) else board
    seeds = [target.seed] if seeds is None else list(seeds)
    if not seeds:
        raise ValueError("seeds must be one or more, not none")
    output = Path(output)
    plan = make_plan(target, design, name)
    files = plan.written
    with folder(output), reserve(*(output / key for key in files)) as outputs, process.workspace() as work:
        run = _Run(plan, work, progress or (lambda line: None))
        run.synthesize()
        clocks = run.place(seeds)
        made = work / str(max(clocks, key=lambda seed: _speed(clocks[seed])))
        report = _report(plan, output, made, run.seconds, clocks)
        run.pack(made)
        kept = sorted({plan.bitstream, ROUTED} & set(files))
        digests = {key: hashlib.sha256((made / files[key]).read_bytes()).hexdigest() for key in kept}
        origin = {"date": datetime.now(UTC).date().isoformat(), "machine": machine_name(), "tools": provenance()}
        report = replace(report, digests=digests, origin=origin)
        (made / SUMMARY).write_text(report.to_json())
        drawing = read_placement((made / plan.routed).read_bytes()).to_svg(f"{target.name}: {name}")
        (made / PLACEMENT).write_text(drawing)
        for key, source in files.items():
            outputs.write_bytes(output / key, (made / source).read_bytes())
    return report


@dataclass
class _Run:
    """The tools at work in a folder."""

    plan: Plan
    work: Path
    tell: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)
    """Duration of each tool's longest run."""

    def synthesize(self) -> None:
        for name, content in self.plan.files.items():
            (self.work / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        self._say("1 of 3: synthesis with Yosys")
        self._call(self.plan.synthesis, self.work)
        yowasp.prepare(self.plan.placement[0], self.tell)

    def place(self, seeds: Sequence[int]) -> dict[int, tuple[Clock, ...]]:
        """Placement and routing with each seed in a folder of its name; the clocks by seed."""
        files = [path for path in self.work.iterdir() if path.is_file()]

        def one(seed: int) -> tuple[Clock, ...]:
            self._say(f"2 of 3: placement and routing with nextpnr, seed {seed}")
            place = self.work / str(seed)
            place.mkdir()
            for file in files:
                shutil.copy(file, place)
            self._call([*self.plan.placement, "--seed", str(seed)], place)
            return read_clocks(json.loads((place / FIGURES).read_text()))

        with process.threads(min(cores(), len(seeds))) as pool:
            clocks = dict(zip(seeds, pool.map(one, seeds), strict=True))
        self._say("3 of 3: packing the bitstream")
        return clocks

    def pack(self, place: Path) -> None:
        for command in self.plan.packing:
            self._call(command, place)

    def _say(self, step: str) -> None:
        self.tell(f"{self.plan.board.name}, step {step}")

    def _call(self, command: Sequence[str], place: Path) -> None:
        start = time.monotonic()
        yowasp.run(command[0], command[1:], place, self.tell)
        self.seconds[command[0]] = max(self.seconds.get(command[0], 0.0), time.monotonic() - start)


def _speed(clocks: Sequence[Clock]) -> float:
    """Speed of a run: the lowest ratio of a clock's Fmax to its constraint."""
    return min(clock.fmax / clock.constraint for clock in clocks)


def _report(
    plan: Plan, output: Path, made: Path, seconds: dict[str, float], runs: dict[int, tuple[Clock, ...]]
) -> BuildReport:
    """The report on a build, from what nextpnr left in the fastest run's folder."""
    figures = json.loads((made / FIGURES).read_text())
    report = BuildReport(
        board=plan.board,
        design=plan.name,
        frequency=plan.frequency,
        bitstream=output / plan.bitstream,
        clocks=runs[int(made.name)],
        utilisation=read_utilisation(figures),
        path=read_path(figures),
        versions=tools.versions([command[0] for command in (plan.synthesis, plan.placement, *plan.packing)]),
        seed=int(made.name),
        runs={number: min(clock.fmax for clock in clocks) for number, clocks in runs.items()},
        seconds=seconds,
    )
    if not report.met:
        slow = [clock for clock in report.clocks if not clock.met]
        limit = f"; {report.path}" if report.path is not None else ""
        raise RuntimeError(
            f"no bitstream for {plan.board.name}: {'; '.join(map(str, slow))}; {plan.advice(_speed(slow))}{limit}"
        )
    return report
