"""Builds of whole systems, each of which takes minutes: those of ``make boards``, where they are of this very state."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from openmxu.cli import frame
from openmxu.export.provenance import provenance

_MADE = Path(__file__).parents[2] / "build"


def build_system(board: str, folder: Path) -> dict[str, Any]:
    """A build of a board's system in an empty folder, and its report.

    It is a copy of that of ``make boards``, if that was made from the same commit and nothing was changed on either
    side; else it is built now.
    """
    if _is_ours(board):
        shutil.copytree(_MADE / board, folder, dirs_exist_ok=True)
    else:
        assert frame.main(["board", "build", board, "-o", str(folder)]) == 0
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def _is_ours(board: str) -> bool:
    try:
        report = json.loads((_MADE / board / "report.json").read_text())
    except OSError:
        return False
    now = provenance()
    a_commit = "commit" in now["OpenMXU"] and "with changes" not in now["OpenMXU"]
    return a_commit and report["design"] == "system" and report["tools"] == now


def check_clock(report: dict[str, Any]) -> None:
    """Timing is met, and what nextpnr takes the clock for is what the PLL makes of the oscillator."""
    assert report["timing_met"]
    needed = max(clock["constraint"] for clock in report["clocks"])
    assert needed == pytest.approx(report["frequency"] / 1e6, rel=0.01)
