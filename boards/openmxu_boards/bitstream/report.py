"""The report on a build: timing and utilisation as nextpnr reports them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from openmxu.pages.tables import counted
from openmxu_boards.bitstream.placement import described, of_nextpnr
from openmxu_boards.devices.boards import Board


@dataclass(frozen=True)
class Clock:
    """Timing of one clock, in MHz."""

    name: str
    fmax: float
    """Frequency that the routed design reaches, in nextpnr's worst case."""
    constraint: float
    """Frequency that the design needs."""

    @property
    def met(self) -> bool:
        return self.fmax >= self.constraint

    def __str__(self) -> str:
        return (
            f"clock {self.name}: {self.fmax:.1f} MHz reached, {self.constraint:.1f} MHz needed, "
            f"timing {'met' if self.met else 'not met'}"
        )


@dataclass(frozen=True)
class LongestPath:
    """The path between registers that limits the clock."""

    start: str
    end: str
    """nextpnr's names of its first and last cell."""
    cells: int
    """Number of cells on the path; a carry chain has one for each bit."""
    logic: float
    routing: float
    """Nanoseconds in cells, setup time included, and on wires."""

    @property
    def figures(self) -> str:
        """Its delay, and the parts of it in cells and on wires."""
        return (
            f"a path of {self.logic + self.routing:.1f} ns, of which {self.logic:.1f} through "
            f"{counted(self.cells, 'cell')} and {self.routing:.1f} on wires"
        )

    def __str__(self) -> str:
        return f"limited by {self.figures}: from {described(self.start)} to {described(self.end)}"


@dataclass(frozen=True)
class Usage:
    """Number of a device's cells of one kind that are used."""

    kind: str
    used: int
    available: int

    def __str__(self) -> str:
        if not self.available:  # GateMate's adders consist of cells that are counted elsewhere
            return f"{self.kind}: {self.used}"
        return f"{self.kind}: {self.used} of {self.available} ({self.used / self.available:.0%})"


@dataclass(frozen=True)
class BuildReport:
    """A finished build."""

    board: Board
    design: str
    """Name of the design, and of the bitstream: ``"system"``, ``"selftest"``, or another."""
    frequency: int
    """Frequency of the design's clock, in Hz: the board's, or the nearest one that its PLL makes."""
    bitstream: Path
    clocks: tuple[Clock, ...]
    utilisation: tuple[Usage, ...]
    """The kinds of cells that are used, by nextpnr's names: on iCE40 ``ICESTORM_LC`` is a logic cell of
    LUT, carry and flip-flop, ``ICESTORM_RAM`` a memory, ``ICESTORM_DSP`` a multiplier; on ECP5
    ``TRELLIS_COMB`` is a LUT, ``TRELLIS_FF`` a flip-flop, ``DP16KD`` a memory, ``MULT18X18D`` a
    multiplier; on Gowin ``LUT4``, ``DFF`` and ``BSRAM``; on GateMate ``CPE_LT`` is half a cell's logic, ``CPE_FF``
    a flip-flop, ``RAM_HALF`` half a memory."""
    path: LongestPath | None
    """The path that limits the clock, if there are registers."""
    versions: Mapping[str, str]
    seed: int
    runs: Mapping[int, float]
    """MHz that each seed's run reached."""
    seconds: Mapping[str, float]
    """Duration of each tool's longest run."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the bitstream, and of the netlist that it was packed from where that stays, by name."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """The day, the machine, and the state of this project."""

    @property
    def met(self) -> bool:
        """Whether every clock is as fast as it must be."""
        return all(clock.met for clock in self.clocks)

    def to_json(self) -> str:
        """The report for programs; the bitstream's name is relative to the report."""
        report = {
            "board": self.board.name,
            "device": self.board.device,
            "design": self.design,
            "unit": unit_of(self.board),
            "frequency": self.frequency,
            "bitstream": self.bitstream.name,
            "timing_met": self.met,
            "clocks": [asdict(clock) for clock in self.clocks],
            "utilisation": [asdict(usage) for usage in self.utilisation],
            "path": self.path and asdict(self.path),
            "versions": dict(self.versions),
            "seed": self.seed,
            "megahertz": {str(seed): clock for seed, clock in self.runs.items()},
            "seconds": {name: round(seconds, 1) for name, seconds in self.seconds.items()},
            "sha256": dict(self.digests),
            **self.origin,
        }
        return json.dumps(report, indent=2) + "\n"

    def __str__(self) -> str:
        lines = [self.board.summary, *map(str, self.clocks)]
        if len(self.runs) > 1:
            lines.append(f"seeds: {', '.join(f'{seed} {clock:.1f} MHz' for seed, clock in self.runs.items())}")
        if self.path is not None:
            lines.append(str(self.path))
        lines += map(str, self.utilisation)
        lines.append(f"load it with: {self.board.programmer} {self.bitstream}")
        if self.design == "system":
            lines.append(f"then: openmxu board selftest, by {self.board.uart_note}")
        if self.design == "selftest":
            lines.append(f"on the board: {self.board.lights}")
        return "\n".join(lines)


def unit_of(board: Board) -> dict[str, Any]:
    config = board.config
    return {
        "rows": config.rows,
        "columns": config.columns,
        "stages": config.stages,
        "operand": config.operand.name,
        "source": config.source.name,
        "subnormals": config.subnormals,
        "depth": config.depth,
        **({"terms": config.terms} if config.terms > 1 else {}),
    }


@of_nextpnr("report")
def read_clocks(report: Any) -> tuple[Clock, ...]:
    """The clocks in nextpnr's JSON report."""
    clocks = tuple(
        Clock(name, round(figures["achieved"], 2), round(figures["constraint"], 2))
        for name, figures in report.get("fmax", {}).items()
    )
    if not clocks:
        raise RuntimeError("nextpnr's report has no clock")
    return clocks


@of_nextpnr("report")
def read_path(report: Any) -> LongestPath | None:
    """The longest path between registers in nextpnr's JSON report, if there is one."""

    def delay(steps: Any) -> float:
        return float(sum(step["delay"] for step in steps))

    paths = [path["path"] for path in report.get("critical_paths", []) if "<async>" not in (path["from"], path["to"])]
    if not paths:
        return None
    steps = max(paths, key=delay)
    routing = delay(step for step in steps if step["type"] == "routing")
    return LongestPath(
        steps[0]["from"]["cell"],
        steps[-1]["to"]["cell"],
        sum(step["type"] == "logic" for step in steps),
        round(delay(steps) - routing, 2),
        round(routing, 2),
    )


@of_nextpnr("report")
def read_utilisation(report: Any) -> tuple[Usage, ...]:
    """The kinds of cells in nextpnr's JSON report of which at least one is used."""
    return tuple(
        Usage(kind, figures["used"], figures["available"])
        for kind, figures in report["utilization"].items()
        if figures["used"]
    )
