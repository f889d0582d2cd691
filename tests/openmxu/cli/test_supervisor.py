"""A command ends when it is told to, and is no success unless it says so, whatever its libraries do."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from openmxu_studies.faults.leftovers import end_at

PROGRAM = """
import ctypes, os, signal, sys
from openmxu.cli import interrupts
from openmxu.cli.supervisor import supervise
def command():
    {body}
interrupts.install()
sys.exit(supervise(command))
"""

# The program itself, with a library that ends it or with no room for a process.
FRONT_DOOR = """
import os, sys
import openmxu_boards
from openmxu.__main__ import main
def fail():
    {}
{} = fail
sys.exit(main())
"""

LIBRARY = "openmxu: ended with exit code 0 by a library before the command was done\n"


def supervised(body: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(body=body)]


def ends(command: list[str]) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("code", [0, 1, 2])
@pytest.mark.parametrize("end", ["", "; ctypes.CDLL(None).on_exit(ctypes.CDLL(None).abort, None)"])
def test_the_code_of_a_command(code: int, end: str) -> None:
    """Also where libraries crash after it."""
    assert ends(supervised(f"print('done'){end}; return {code}")) == (code, "done\n", "")


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("os._exit(0)", 1, LIBRARY),
        ("ctypes.CDLL(None).exit(0)", 1, LIBRARY),
        ("ctypes.CDLL(None)._exit(0)", 1, LIBRARY),
        ("ctypes.CDLL(None).exit(7)", 7, ""),
        ("ctypes.CDLL(None).abort()", 1, "openmxu: killed by signal 6 before the command was done\n"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 1, "openmxu: killed by signal 9 before the command was done\n"),
        ("os.kill(os.getpid(), signal.SIGTERM)", 143, "terminated\n"),
    ],
)
def test_ends_that_no_command_has(body: str, code: int, message: str) -> None:
    assert ends(supervised(body)) == (code, "", message)


def test_the_front_door_has_it() -> None:
    program = FRONT_DOOR.format("os._exit(0)", "openmxu_boards.boards")
    assert ends([sys.executable, "-c", program, "board", "list"]) == (1, "", LIBRARY)


def test_no_room_for_a_process() -> None:
    program = FRONT_DOOR.format('raise BlockingIOError(11, "Resource temporarily unavailable")', "os.fork")
    message = "openmxu: no process can be started: Resource temporarily unavailable\n"
    assert ends([sys.executable, "-c", program, "list"]) == (2, "", message)


def test_ignored_children() -> None:
    """Whoever starts the program may not care how its children end."""
    ignore = "signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = [sys.executable, "-c", f"import os, signal, sys; {ignore}", *supervised("return 2")[1:]]
    assert ends(command) == (2, "", "")


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGTERM, 143, "terminated\n"),
        (signal.SIGINT, 130, "interrupted\n"),
        (signal.SIGHUP, 129, "hung up\n"),
        (signal.SIGKILL, -9, ""),
    ],
)
def test_signals_while_native_code_keeps_python(number: signal.Signals, code: int, word: str, tmp_path: Path) -> None:
    """A handler of Python's would wait for its end, and no other thread runs meanwhile."""
    ending = end_at(
        1.0,
        number,
        supervised("ctypes.PyDLL(None).sleep(1000)"),
        marker=uuid.uuid4().hex,
        folder=tmp_path,
        environment=os.environ,
        directory=tmp_path,
        awake=True,
    )
    assert (ending.code, ending.errors, ending.left) == (code, word, ())
    assert ending.seconds < 5  # 0.5 on a machine with nothing else to do


def test_a_child_of_a_child_may_hold_the_pipe() -> None:
    start = time.monotonic()
    body = "\n    ".join(["if not os.fork(): import time; os.close(1); os.close(2); time.sleep(20)", "os._exit(0)"])
    assert ends(supervised(body))[0] == 1
    assert time.monotonic() - start < 15
