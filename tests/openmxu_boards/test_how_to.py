"""What the how-tos say to do is done: each command as it stands there, with a simulated board at the port."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from openmxu.cli import frame
from openmxu_boards import Board, boards, find_board
from openmxu_boards.bitstream.plan import make_plan
from openmxu_boards.families import family_of
from openmxu_boards.simulated import Terminal, simulated_link
from openmxu_sim import golden

from .testbenches import small_system, verilated

_DOCS = Path(__file__).parents[2] / "docs"
FIRST, BUILD = (_DOCS / "how-to" / f"{name}-board.md" for name in ("first", "build"))


def blocks(page: Path, heading: str) -> list[list[str]]:
    """The commands below a heading of a page, by block."""
    text = re.split(rf"^## {heading}$", page.read_text(), flags=re.MULTILINE)[1]
    [below, *_] = re.split(r"^## ", text, maxsplit=1, flags=re.MULTILINE)
    found = re.findall(r"```console\n(.*?)```", below, re.DOTALL)
    return [[line.removeprefix("$ ") for line in block.splitlines()] for block in found]


@pytest.mark.parametrize("board", boards(), ids=lambda board: board.name)
def test_each_board_is_built_and_loaded(board: Board) -> None:
    bitstream = f"build/system.{family_of(board.new_platform()).bitstream}"
    steps = [f"openmxu board build {board.name} -o build", f"{board.programmer} {bitstream}"]
    assert blocks(FIRST, "Build, and load").count(steps) == 1


def run(command: str) -> None:
    program, *arguments = shlex.split(command)
    if program == "python":
        subprocess.run([sys.executable, *arguments], check=True)
    else:
        assert (program, frame.main(arguments)) == ("openmxu", 0), command


@verilated
def test_the_first_product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The board is found by itself."""
    [commands] = blocks(FIRST, "The first product")
    monkeypatch.chdir(tmp_path)
    with Terminal(simulated_link(small_system())) as terminal:
        monkeypatch.setattr("openmxu_boards.host.host.candidates", lambda: [terminal.port])
        for command in commands:
            run(command)
    said = capsys.readouterr().out
    assert all(text in said for text in (f"answers on {terminal.port}", "20 products", ", 0 wrong")), said
    a, c = np.load("A.npy"), np.load("C.npy")
    assert c.shape == (20, 20)
    assert np.array_equal(golden.to_bits(c), golden.to_bits(golden.matmul(a, a, rows=2)))


@pytest.fixture
def _my_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's board of one's own is in the current folder."""
    shutil.copy(_DOCS / "examples" / "my_board.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_board", raising=False)


@pytest.mark.usefixtures("_my_board")
def test_a_board_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In thirty lines it has lights and a UART."""
    monkeypatch.syspath_prepend(tmp_path)
    assert len((tmp_path / "my_board.py").read_text().splitlines()) <= 30
    board = find_board("my_board:MyPlatform")
    assert list(board.leds) == ["pass", "fail", "heartbeat"]
    lines = str(make_plan(board, board.system, "system").files["system.lpf"])
    for pin in ("clk_0__io", "led_2__io", "uart_0__rx__io", "uart_0__tx__io"):
        assert f'LOCATE COMP "{pin}"' in lines


@pytest.mark.slow
@pytest.mark.thorough
@verilated
@pytest.mark.usefixtures("_my_board")
def test_a_board_of_ones_own_multiplies(capsys: pytest.CaptureFixture[str]) -> None:
    [command] = [line for [*lines] in blocks(BUILD, "A board of your own") for line in lines if "--simulate" in line]
    run(command)
    assert "20 products" in capsys.readouterr().out
