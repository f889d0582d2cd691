"""From a board's name to its bitstream.

::

    design ─▶ RTLIL, each element once ─▶ Yosys ─┬─▶ nextpnr, seed 1 ─┬─▶ the fastest ─▶ packer ─▶ bitstream
                                                 ├─▶ nextpnr, seed 2 ─┤
                                                 └─▶ …               ─┘
"""

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from openmxu.export.provenance import provenance
from openmxu.export.verilog import to_rtlil
from openmxu.runtime import process
from openmxu.runtime.files import folder, reserve
from openmxu.runtime.machine import cores, machine_name
from openmxu.spec.forms import FPGA
from openmxu.yosys import yowasp
from openmxu_boards import tools
from openmxu_boards.bitstream.placement import read_placement
from openmxu_boards.bitstream.report import BuildReport, Clock, read_clocks, read_path, read_utilisation
from openmxu_boards.bitstream.top import Design, Emitted, Top, check_uart, selftest
from openmxu_boards.devices.boards import Board, find_board
from openmxu_boards.devices.families import family_of

MOST_SEEDS = 100
"""The most runs of nextpnr in a build."""

_DESIGN = "design"
SUMMARY = "report.json"
"""The report on a build."""

ROUTED = "routed.json"
"""The netlist after routing."""

PLACEMENT = "placement.svg"
"""The drawing of the places of the parts."""

_FIGURES = "nextpnr.json"

_AFTERWARDS = {"dfu-suffix"}
"""Steps of platforms on a finished bitstream that its loader does not need."""


@dataclass(frozen=True)
class _Plan:
    """The files that the tools read, and the commands that call them."""

    files: dict[str, str | bytes]
    synthesis: list[str]
    placement: list[str]
    packing: list[list[str]]
    frequency: int

    @property
    def routed(self) -> str:
        """The netlist after routing."""
        return self.placement[self.placement.index("--write") + 1]


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
    the drawing ``placement.svg`` of its parts, nextpnr's own ``nextpnr.json``, for all families but iCE40 the netlist
    after routing as ``routed.json``, and ``yosys.log`` and ``nextpnr.log``. Their places are reserved before the tools
    run.
    If a tool fails, earlier files stay unchanged, and no new ones appear.

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
    tell = progress or (lambda line: None)
    plan = _plan(target, design, name)
    family = family_of(target.new_platform())
    bitstream = f"{name}.{family.bitstream}"
    written = {
        "yosys.log": f"{name}.rpt",
        "nextpnr.log": f"{name}.tim",
        _FIGURES: _FIGURES,
        PLACEMENT: PLACEMENT,
        bitstream: bitstream,
        # A bitstream that cannot be unpacked is checked by the netlist that it was packed from.
        **({ROUTED: plan.routed} if family.replayed == "netlist" else {}),
        SUMMARY: SUMMARY,
    }
    with folder(output), reserve(*(output / key for key in written)) as outputs, process.workspace() as work:
        seconds, runs = _run(plan, target, work, seeds, tell)
        fastest = work / str(max(runs, key=lambda seed: _speed(runs[seed])))
        report = _report(target, plan, output / bitstream, fastest, seconds, runs)
        for command in plan.packing:
            _timed(command, fastest, seconds, tell)
        digests = {
            key: hashlib.sha256((fastest / written[key]).read_bytes()).hexdigest()
            for key in sorted({bitstream, ROUTED} & set(written))
        }
        origin = {"date": datetime.now(UTC).date().isoformat(), "machine": machine_name(), "tools": provenance()}
        report = replace(report, digests=digests, origin=origin)
        (fastest / SUMMARY).write_text(report.to_json())
        drawing = read_placement((fastest / plan.routed).read_bytes()).to_svg(f"{target.name}: {name}")
        (fastest / PLACEMENT).write_text(drawing)
        # The summary comes last: where it exists, all files do.
        for key, source in written.items():
            outputs.write_bytes(output / key, (fastest / source).read_bytes())
    return report


def _run(
    plan: _Plan, board: Board, work: Path, seeds: Sequence[int], tell: Callable[[str], None]
) -> tuple[dict[str, float], dict[int, tuple[Clock, ...]]]:
    """Synthesis, and placement and routing with each seed in a folder of its name; seconds, and clocks by seed."""
    for name, content in plan.files.items():
        (work / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    tell(f"{board.name}, step 1 of 3: synthesis with Yosys")
    seconds: dict[str, float] = {}
    _timed(plan.synthesis, work, seconds, tell)
    yowasp.prepare(plan.placement[0], tell)
    files = [path for path in work.iterdir() if path.is_file()]

    def place(seed: int) -> tuple[Clock, ...]:
        tell(f"{board.name}, step 2 of 3: placement and routing with nextpnr, seed {seed}")
        (work / str(seed)).mkdir()
        for file in files:
            shutil.copy(file, work / str(seed))
        _timed([*plan.placement, "--seed", str(seed)], work / str(seed), seconds, tell)
        return read_clocks(json.loads((work / str(seed) / _FIGURES).read_text()))

    with process.threads(min(cores(), len(seeds))) as pool:
        runs = dict(zip(seeds, pool.map(place, seeds), strict=True))
    tell(f"{board.name}, step 3 of 3: packing the bitstream")
    return seconds, runs


def _timed(command: Sequence[str], work: Path, seconds: dict[str, float], tell: Callable[[str], None]) -> None:
    """Run a tool, and keep the time of its longest run."""
    start = time.monotonic()
    yowasp.run(command[0], command[1:], work, tell)
    seconds[command[0]] = max(seconds.get(command[0], 0.0), time.monotonic() - start)


def _speed(clocks: Sequence[Clock]) -> float:
    """Speed of a run: the lowest ratio of a clock's Fmax to its constraint."""
    return min(clock.fmax / clock.constraint for clock in clocks)


def _report(
    board: Board,
    plan: _Plan,
    bitstream: Path,
    work: Path,
    seconds: dict[str, float],
    runs: dict[int, tuple[Clock, ...]],
) -> BuildReport:
    """The report on a build, from what nextpnr left in the fastest run's folder."""
    seed = int(work.name)
    used = [plan.synthesis[0], plan.placement[0], *(command[0] for command in plan.packing)]
    figures = json.loads((work / _FIGURES).read_text())
    report = BuildReport(
        board=board,
        design=bitstream.stem,
        frequency=plan.frequency,
        bitstream=bitstream,
        clocks=runs[seed],
        utilisation=read_utilisation(figures),
        path=read_path(figures),
        versions=tools.versions(used),
        seed=seed,
        runs={number: min(clock.fmax for clock in clocks) for number, clocks in runs.items()},
        seconds=seconds,
    )
    if not report.met:
        slow = [clock for clock in report.clocks if not clock.met]
        would = board.slower(board.new_platform(), plan.frequency * _speed(slow))
        advice = "its PLL has no setting that meets timing" if would is None else f"--clock {would:g} would be met"
        limit = f"; {report.path}" if report.path is not None else ""
        raise RuntimeError(f"no bitstream for {board.name}: {'; '.join(map(str, slow))}; {advice}{limit}")
    return report


def _plan(board: Board, design: Design = selftest, name: str = "selftest") -> _Plan:
    """The files that the tools read, and their commands."""
    platform = board.new_platform()
    frequency = board.clock(platform)
    family = family_of(platform)
    overrides = {"synth_opts": family.synthesis(platform), "nextpnr_opts": family.placement} | dict(board.overrides)
    component = design(board.config, frequency)
    text = to_rtlil(component, name=_DESIGN, form=FPGA)
    check_uart(component, board)  # before the platform's files are made; Amaranth warns of what is never elaborated
    platform.add_file(f"{_DESIGN}.il", text)
    # The design's own module comes last. A module without registers has no clock.
    clocked = re.search(r"^ *wire .*input \d+ +\\clk$", text.rpartition("\nmodule ")[2], re.MULTILINE) is not None
    # nextpnr does not fail if the design is too slow: its figures are still wanted.
    figures = [f"--freq {frequency / 1e6:.6f}", f"--report {_FIGURES}", "--timing-allow-fail"]
    # No source locations: they depend on the machine.
    plan = platform.build(
        Top(Emitted(component, _DESIGN, clocked=clocked), board),
        name=name,
        do_build=False,
        emit_src=False,
        **overrides | {"nextpnr_opts": " ".join([*figures, overrides["nextpnr_opts"]])},
    )
    commands = json.loads(plan.files[f"build_{name}.json"])["commands"]
    synthesis, placement, *packing = [command for command in commands if command[0] not in _AFTERWARDS]
    if "--write" not in placement:  # Gowin's packer reads the written netlist already
        placement += ["--write", ROUTED]
    tools.check([command[0] for command in commands if command[0] not in _AFTERWARDS])
    return _Plan(dict(plan.files), synthesis, placement, packing, frequency)
