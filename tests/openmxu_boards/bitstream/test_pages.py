"""The page of builds."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from openmxu.cli import frame
from openmxu_boards.bitstream import pages
from openmxu_boards.bitstream.report import unit_of
from openmxu_boards.devices.boards import Board, find_board, with_options
from openmxu_boards.simulated.throughput import Throughput

from .test_record import REPORT

DRAWING = "<svg>of {}</svg>"


@pytest.fixture
def builds(tmp_path: Path) -> list[Path]:
    """Two builds."""
    folders = []
    for report in (REPORT, replace(REPORT, design="selftest")):
        folder = tmp_path / report.design
        folder.mkdir()
        (folder / "report.json").write_text(report.to_json())
        (folder / "placement.svg").write_text(DRAWING.format(report.design))
        folders.append(folder)
    return folders


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Board]:
    """The boards that have been simulated."""
    boards: list[Board] = []

    def measure(board: Board, tell: Callable[[str], None]) -> Throughput:
        boards.append(board)
        return Throughput(64, board.frequency, board.baud, cycles=27_000_000, sent=95_000, received=0, busy=270_000)

    monkeypatch.setattr(pages, "measure", measure)
    return boards


def test_the_board_of_a_build_has_its_terms() -> None:
    board = with_options(find_board("ulx3s-25f"), columns=7, terms=4)
    build = {"board": board.name, "unit": unit_of(board), "frequency": board.frequency}
    assert pages._board(build) == board


def test_pages(builds: list[Path], measured: list[Board], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "out"
    assert frame.main(["board", "report", *map(str, builds), "-o", str(output)]) == 0
    assert capsys.readouterr().out == f"{output / 'report.html'}\n"
    drawings = ["icebreaker-selftest-2x2.svg", "icebreaker-system-2x2.svg"]
    assert sorted(path.name for path in output.iterdir()) == [*drawings, "report.html", "report.md"]
    # The unit and the clock are those that were built; only the system answers a host.
    assert measured == [replace(find_board("icebreaker"), frequency=REPORT.frequency)]

    text = (output / "report.md").read_text()
    assert "\n| `icebreaker` | 2x2 | 0.22 | 64x64x64 at 1,000,000 baud | 0.52 | 1.00 | 95% | 1.00% |\n" in text
    assert (
        "\n## icebreaker, system, 2x2\n\n![Where the parts of icebreaker, system, 2x2 lie](icebreaker-system-2x2.svg)"
        in text
    )
    assert (
        "`column_1.sum` of the accumulators.\n"
        "- For a host, the UART limits it: bytes are on the UART 95% of the time, and the array is fed 1.00% of it.\n"
        "- Operands come in bf16."
    ) in text

    page = (output / "report.html").read_text()
    assert [page.count(DRAWING.format(design)) for design in ("system", "selftest")] == [1, 1]
    assert "<img" not in page
    assert (output / drawings[0]).read_text() == DRAWING.format("selftest")


def test_quick(builds: list[Path], measured: list[Board], tmp_path: Path) -> None:
    assert frame.main(["board", "report", str(builds[0]), "--quick", "-o", str(tmp_path / "out")]) == 0
    assert not measured
    assert "MFLOP/s" not in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("busy", "sent", "limit"),
    [
        (26_000_000, 95_000, "the UART"),
        (26_000_000, 5_000, "the array"),
        (5, 5, "neither the UART nor the array alone"),
    ],
)
def test_limits(busy: int, sent: int, limit: str) -> None:
    found = Throughput(64, 27_000_000, 1_000_000, cycles=27_000_000, sent=sent, received=0, busy=busy)
    text = pages.to_markdown([pages.entry(REPORT.to_json(), found)])
    assert f"- For a host, {limit} limits it" in text


def test_a_unit_that_only_python_makes(builds: list[Path], measured: list[Board], tmp_path: Path) -> None:
    """It cannot be simulated from its report."""
    config = replace(REPORT.board.config, depth=32)
    (builds[0] / "report.json").write_text(replace(REPORT, board=replace(REPORT.board, config=config)).to_json())
    told: list[str] = []
    pages.write_pages(builds[:1], tmp_path / "out", tell=told.append)
    assert told == ["icebreaker: not measured, as its unit is not one that openmxu board build makes"]
    assert not measured


_NO_FILE = "DIR must be a folder of openmxu board build; {}: No such file or directory"
_NO_REPORT = "{}: it is no report that this version of openmxu board build leaves"
_NO_ROWS = json.loads(REPORT.to_json())
del _NO_ROWS["unit"]["rows"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("report.json", None, _NO_FILE),
        ("placement.svg", None, _NO_FILE),
        ("report.json", "{}", f"{_NO_REPORT}: KeyError"),
        ("report.json", json.dumps(_NO_ROWS), _NO_REPORT),
        ("report.json", "no JSON", _NO_REPORT),
    ],
)
def test_no_build(
    name: str, content: str | None, message: str, builds: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is None:
        (builds[0] / name).unlink()
    else:
        (builds[0] / name).write_text(content)
    assert frame.main(["board", "report", *map(str, builds), "-o", str(tmp_path / "out")]) == 2
    assert message.format(builds[0] / name) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_same_build_twice(builds: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert frame.main(["board", "report", str(builds[0]), str(builds[0]), "-o", str(tmp_path / "out")]) == 2
    assert "two are of the same board, design and size" in capsys.readouterr().err
