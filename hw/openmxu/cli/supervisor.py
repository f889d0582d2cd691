"""Runs a command in a process of its own, so that it can be ended and its exit judged, whatever its libraries do.

::

    openmxu: waits, passes signals on, kills what does not end within half a second
      └─ fork, made before anything is imported: the command
           └─ writes its exit code into a pipe when its outputs are there, and ends

Python runs a signal's handler only after native code returns; the parent runs no such code, and acts at once. A library
that crashes, or ends its process by exit(0), takes the fork with it, and no code is in the pipe. On Linux, the kernel
kills the fork when the parent is gone; elsewhere it goes on until it is done. What the command itself starts,
:mod:`openmxu.runtime.process` and its watcher end.
"""

import _signal  # type: ignore[import-not-found]  # as in openmxu.cli.interrupts
import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from openmxu.cli import interrupts

_GRACE = 0.5
"""Seconds that a command may take to end by itself after a signal."""

_SET_DEATH_SIGNAL = 1
"""The number that Linux gives PR_SET_PDEATHSIG."""


def supervise(command: Callable[[], int]) -> int:
    """The exit code of a command; in the fork, the same."""
    parent = os.getpid()
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)  # if it is ignored, a child's exit status is lost
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        _die_with(parent)
        ending = bytearray([1])
        atexit.register(_leave, ending)  # the first one is called last
        ending[0] = command()
        with suppress(OSError):  # then the parent says that it knows no code
            os.write(writer, ending)
        return ending[0]
    caught = _pass_on(child)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    interrupts.ignore()
    _signal.signal(_signal.SIGALRM, _signal.SIG_IGN)  # a timer that still runs would end this process
    os.set_blocking(reader, False)  # processes that the command forked may hold the other end
    os.close(writer)
    with suppress(BlockingIOError):
        if code_of_command := os.read(reader, 1):
            return code_of_command[0]
    if caught and status == -_signal.SIGKILL:
        interrupts.tell(caught[0])
        return 128 + caught[0]
    if status <= 0:
        why = f"killed by signal {-status}" if status else "ended with exit code 0 by a library"
        os.write(2, f"openmxu: {why} before the command was done\n".encode())
    return status if status > 0 else 1


def _leave(ending: bytearray) -> None:
    """End the fork at once: the interpreter's cleanup would take a tenth of a second."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # full, or closed
            stream.flush()
    os._exit(ending[0])


def _die_with(parent: int) -> None:
    """End this process when its parent is killed."""
    import ctypes  # noqa: PLC0415  # a while, in which the parent must not wait

    with suppress(AttributeError):  # another system
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, _signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _pass_on(child: int) -> list[int]:
    """From here on, pass signals to the child, and kill it soon after; returns a list that collects the signals."""
    caught: list[int] = []

    def send(number: int, _: object) -> None:
        caught.append(number)
        with suppress(ProcessLookupError):
            os.kill(child, number)
        _signal.setitimer(_signal.ITIMER_REAL, _GRACE)

    def kill(*_: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, _signal.SIGKILL)

    _signal.signal(_signal.SIGALRM, kill)
    interrupts.install(send)
    return caught
