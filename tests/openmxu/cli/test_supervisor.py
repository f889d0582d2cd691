"""A command ends when it is told to, and is no success unless it says so, whatever its libraries do."""

import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from openmxu_studies.faults.leftovers import end_at

from ...conftest import ALONE, ran

PROGRAM = """
import ctypes, os, signal, sys
from openmxu.cli.supervisor import install, supervise
def command():
    {body}
install()
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

ENDS = {"TERM": 143, "INT": 130, "HUP": 129}
LIBRARY = "openmxu: ended with exit code 0 by a library before the command was done\n"
NO_PROCESS, NO_ROOM = "openmxu: no process can be started: ", "Resource temporarily unavailable"


def supervised(body: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(body=body)]


def ends(command: list[str]) -> tuple[int, str, str]:
    done = ran(command, timeout=60)
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
        ("os.write = lambda *_: os.close(-1); return 0", 1, LIBRARY),
        ("os.kill(os.getpid(), signal.SIGKILL)", 1, "openmxu: killed by signal 9 before the command was done\n"),
        ("os.kill(os.getpid(), signal.SIGTERM)", 143, "terminated\n"),
    ],
)
def test_ends_that_no_command_has(body: str, code: int, message: str) -> None:
    assert ends(supervised(body)) == (code, "", message)


@pytest.mark.parametrize(
    ("fails", "name", "words", "ending"),
    [
        ("os._exit(0)", "openmxu_boards.boards", "board list", (1, "", LIBRARY)),
        (f"raise BlockingIOError(11, {NO_ROOM!r})", "os.fork", "list", (2, "", f"{NO_PROCESS}{NO_ROOM}\n")),
    ],
)
def test_the_front_door(fails: str, name: str, words: str, ending: tuple[int, str, str]) -> None:
    assert ends([sys.executable, "-c", FRONT_DOOR.format(fails, name), *words.split()]) == ending


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
def test_signals_while_native_code_keeps_python(number: signal.Signals, code: int, word: str) -> None:
    """A handler of Python's would wait for its end."""
    kill = f"threading.Timer(0.3, os.kill, (os.getppid(), {int(number)})).start()"
    body = f"import hashlib, threading; {kill}; hashlib.pbkdf2_hmac('sha1', b'', b'', 2**31 - 1)"
    assert ends(supervised(body)) == (code, "", word)


def test_the_end_of_the_timer() -> None:
    """An interpreter that takes its time to end is not ended by the timer that a signal started."""
    slow = "type('Slow', (), {'__del__': lambda self, sleep=__import__('time').sleep: sleep(1.5)})()"
    program = PROGRAM.format(body="os.kill(os.getppid(), signal.SIGTERM); signal.pause()")
    assert ends([sys.executable, "-c", f"slow = {slow}\n{program}"]) == (143, "", "terminated\n")


def test_a_child_of_a_child_may_hold_the_pipe() -> None:
    start = time.monotonic()
    body = "\n    ".join(["if not os.fork(): import time; os.close(1); os.close(2); time.sleep(20)", "os._exit(0)"])
    assert ends(supervised(body))[0] == 1
    assert time.monotonic() - start < 15


LEAVES = """
    from openmxu.runtime.process import run, workspace
    with workspace() as folder:
        (folder / "file").touch()
        run(["sh", "-c", "{}"], what="sleep", limit=1000)
        {}
"""
STAYS = f"{ALONE} & {{}}".format


@pytest.mark.parametrize(
    ("program", "end", "number", "code"),
    [
        *((STAYS("wait"), "return 0", getattr(signal, f"SIG{name}"), code) for name, code in ENDS.items()),
        (STAYS("sleep 1"), "os._exit(7)", None, 7),
        (STAYS("sleep 1"), "os.kill(os.getpid(), 9)", None, 1),
        (STAYS("sleep 1"), "return 0", None, 0),
        ("exec sleep 1000", "return 0", signal.SIGKILL, -9),
    ],
)
def test_what_a_command_leaves_goes(
    program: str, end: str, number: signal.Signals | None, code: int, tmp_path: Path
) -> None:
    """A grandchild that has left its group, and folders; if the front is killed, the child, but no folder."""
    how: dict[str, Any] = {"marker": uuid.uuid4().hex, "folder": tmp_path, "directory": tmp_path, "awake": True}
    command = supervised(LEAVES.format(program, end).strip())
    ending = end_at(2.0 if number else 60.0, number or signal.SIGKILL, command, environment=os.environ, **how)
    assert ending.code == code, ending
    assert [each for each in ending.left if number != signal.SIGKILL or each.startswith("process")] == []
    assert ending.seconds < 5  # one, on a machine with nothing else to do
