"""Runs a command in a process of its own, so that it ends within a second of a signal, and nothing stays behind it.

::

    front: waits, passes signals on, kills what does not end within half a second
      └─ fork: the command, in a folder for temporary files that goes with it
           └─ writes its exit code into a pipe when its outputs are there, and ends

Python runs a signal's handler only after native code returns; the front runs no such code, and acts at once. A library
that crashes, or ends its process by exit(0), takes the fork with it, and no code is in the pipe. Linux gives the front
what the command has started and left, and it kills that; if the front is killed itself, Linux kills the command.
"""

# Not the module signal, which is read from a file and makes enumerations: Ctrl-C meanwhile would show a traceback.
import _signal  # type: ignore[import-not-found]
import atexit
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_GRACE = 0.5
"""Seconds that a command may take to end by itself after a signal."""

_ADOPT = 36
"""The number that Linux gives PR_SET_CHILD_SUBREAPER."""

_WORDS = {_signal.SIGINT: "interrupted", _signal.SIGTERM: "terminated"}
if hasattr(_signal, "SIGHUP"):  # else openmxu.runtime.locks says what system it takes
    _WORDS[_signal.SIGHUP] = "hung up"


def install(handler: Callable[[int, object], None] | None = None) -> None:
    """Install a handler for these signals, unless they are ignored; by default :func:`end`."""
    for number in _WORDS:
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, handler or end)


def ignore() -> None:
    """Make these signals do nothing once the work is done: the interpreter's cleanup must not change the exit code."""
    for number in _WORDS:
        _signal.signal(number, _signal.SIG_IGN)


def end(number: int, _: object) -> None:
    """End this process with exit code 128 plus the signal's number, and remove unfinished outputs.

    No exception, as that would show a traceback in the middle of an import or of a clean-up.
    """
    try:
        ignore()
        # Not imported here: where nothing has imported it, there is nothing to remove.
        discard_all = getattr(sys.modules.get("openmxu.runtime.files"), "discard_all", None)
        if discard_all is not None:
            discard_all()
        _tell(number)
    finally:
        os._exit(128 + number)


def supervise(command: Callable[[], int]) -> int:
    """The exit code of a command; in the fork, the same."""
    from openmxu.runtime.process import workspace  # noqa: PLC0415  # after the signals

    front = _Front()
    with ExitStack() as stack:
        scratch = None
        with suppress(OSError):  # the command says so, if it needs one
            scratch = stack.enter_context(workspace())
        reader, writer = os.pipe()
        if not front.fork():
            _enter(front, scratch)
            ending = bytearray([1])
            atexit.register(_leave, ending)  # the first one is called last
            ending[0] = command()
            with suppress(OSError):  # then the front says that it knows no code
                os.write(writer, ending)
            return ending[0]
        status = front.wait()
    os.set_blocking(reader, False)  # processes that the command forked may hold the other end
    os.close(writer)
    with suppress(BlockingIOError):
        if code_of_command := os.read(reader, 1):
            return code_of_command[0]
    if front.caught and status == -_signal.SIGKILL:
        _tell(front.caught[0])
        return 128 + front.caught[0]
    if status <= 0:
        why = f"killed by signal {-status}" if status else "ended with exit code 0 by a library"
        os.write(2, f"openmxu: {why} before the command was done\n".encode())
    return status if status > 0 else 1


class _Front:
    """The process that waits for a command, and the signals that it was sent.

    It blocks signals and takes them one by one. A handler would not hear one that comes between Python's last look and
    a blocking call, until that call returns.
    """

    def __init__(self) -> None:
        self.process, self.caught = os.getpid(), list[int]()
        self._child = 0
        self._awaited = {
            _signal.SIGCHLD,
            _signal.SIGALRM,
            *(n for n in _WORDS if _signal.getsignal(n) != _signal.SIG_IGN),
        }
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)  # if it is ignored, a child's exit status is lost
        _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
        self._mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, self._awaited)

    def fork(self) -> int:
        """Start the command; zero in the fork, which takes signals when it has handlers for them."""
        from openmxu.runtime.launcher import control  # noqa: PLC0415  # as below

        self._child = os.fork()
        if self._child:
            control(_ADOPT, 1)
        return self._child

    def unblock(self) -> None:
        """Take signals as before."""
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self._mask)

    def wait(self) -> int:
        """Wait for the end of the command, and kill what it has left; its exit code, as of :mod:`subprocess`."""
        from openmxu.runtime.process import kill_below  # noqa: PLC0415  # as above

        status = self._end_of_command()
        ignore()
        _signal.signal(_signal.SIGALRM, _signal.SIG_IGN)  # a timer that still runs would end this process
        self.unblock()
        for _ in range(100):
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                break
            kill_below(self.process)
            time.sleep(0.02)
        return status

    def _end_of_command(self) -> int:
        while True:
            number = _signal.sigwait(self._awaited)
            if number == _signal.SIGCHLD:
                ended, status = os.waitpid(self._child, os.WNOHANG)
                if ended:
                    return os.waitstatus_to_exitcode(status)
            elif number == _signal.SIGALRM:
                os.kill(self._child, _signal.SIGKILL)
            else:
                self.caught.append(number)
                os.kill(self._child, number)  # it is there, ended or not, until it is waited for
                _signal.setitimer(_signal.ITIMER_REAL, _GRACE)


def _enter(front: _Front, scratch: "Path | None") -> None:
    """Begin the fork."""
    import tempfile  # noqa: PLC0415  # it is there already

    from openmxu.runtime.launcher import die_with  # noqa: PLC0415

    install()
    front.unblock()
    die_with(front.process)
    if scratch is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)


def _leave(ending: bytearray) -> None:
    """End the fork at once: the interpreter's cleanup would take a tenth of a second."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # full, or closed
            stream.flush()
    os._exit(ending[0])


def _tell(number: int) -> None:
    """Print which signal has ended the program."""
    word = _WORDS[number]
    # A bar of progress hides the cursor and leaves half a line.
    os.write(2, (f"\r\x1b[K\x1b[?25h{word}\n" if os.isatty(2) else f"{word}\n").encode())
