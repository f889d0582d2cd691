"""Starts child processes and makes temporary folders, which end with the block that made them.

::

    openmxu ── command ──┬── run(): a child, leader of a session of its own ── what it starts
     front     fork      └── workspace(): openmxu-work-XXXXXXXX

=====================  ============================================================================================
what ends              what ends its children
=====================  ============================================================================================
the block, a thread's  :func:`run` kills the child's group; after an error also what has left that group
the command            the front (:mod:`openmxu.cli.supervisor`), to which Linux gives all orphans
the process, killed    Linux kills the child (:mod:`openmxu.runtime.launcher`), but not what the child has started
=====================  ============================================================================================

A folder is locked by its owner. A later process removes those that nobody has locked.
"""

import contextvars
import errno
import functools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openmxu.runtime import launcher
from openmxu.runtime.locks import is_free

_PREFIX = "openmxu-work-"

_TICK = 0.1
"""Seconds between two checks of a running child."""

_YOUNG = 60.0
"""Seconds for which a folder that nobody has locked is left alone: its owner may be about to lock it."""

_TRIES = 100
"""Tries to remove a folder into which a process that is being killed may still write."""


class TimeLimitError(RuntimeError):
    """A child took longer than allowed; the text names the child and the limit."""


@dataclass(frozen=True)
class Done:
    """A child that has ended by itself."""

    code: int
    """Its exit code; negative: the number of the signal that ended it."""
    output: str
    errors: str
    """Its standard output and standard error; empty where they went into a log."""

    @property
    def ending(self) -> str:
        """How it ended, in words: ``exit code 1``, ``signal SIGSEGV``."""
        names = {number.value: number.name for number in signal.Signals}
        return f"exit code {self.code}" if self.code >= 0 else f"signal {names.get(-self.code, -self.code)}"

    def last(self, lines: int) -> list[str]:
        """The last lines of output and errors that are not empty."""
        return [line for line in (self.output + "\n" + self.errors).splitlines() if line.strip()][-lines:]


def run(
    command: Sequence[str],
    *,
    what: str,
    limit: float | None,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    text: str = "",
    log: Path | None = None,
    tick: Callable[[], object] | None = None,
) -> Done:
    """Run a program to its end, in a session of its own, which ends with this call in any case."""
    with ExitStack() as stack:
        scratch = stack.enter_context(workspace())
        (scratch / "tmp").mkdir()
        (scratch / "input").write_text(text, encoding="utf-8")
        names = [scratch / "output", scratch / "errors"] if log is None else [log]
        files = [stack.enter_context(name.open("wb")) for name in names]
        pipes = {"stdin": stack.enter_context((scratch / "input").open("rb")), "stdout": files[0], "stderr": files[-1]}
        variables = {**(os.environ if environment is None else environment), "TMPDIR": str(scratch / "tmp")}
        deadline = None if limit is None else time.monotonic() + limit
        with _started(command, cwd=directory, env=variables, **pipes) as child:
            while not _has_ended(child):
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeLimitError(
                        f"{what} took longer than {limit:g} s and was ended; "
                        f"does {Path(command[0]).name} run by itself?"
                    )
                if any(stop.is_set() for stop in _stops.get()):
                    raise CancelledError
                if tick is not None:
                    tick()
        output, errors = ("", "") if log else (name.read_text("utf-8", "replace") for name in names)
    return Done(child.returncode, output, errors)


def call(
    function: Callable[..., Any], *arguments: Any, what: str, limit: float, environment: Mapping[str, str] | None = None
) -> Any:
    """Call a function in a process of its own, which gives its memory back and may crash."""
    done = run(
        [sys.executable, "-P", "-m", "openmxu.runtime.callee", function.__module__, function.__qualname__],
        what=what,
        limit=limit,
        environment=environment,
        text=json.dumps(arguments),
    )
    if done.code:
        reason = "; ".join(done.last(1)) or "for want of memory perhaps"
        raise RuntimeError(f"{what} died with {done.ending}: {reason}")
    reply = json.loads(done.output.splitlines()[-1])
    if "error" in reply:
        raise RuntimeError(reply["error"])
    return reply["result"]


@contextmanager
def workspace(base: Path | str | None = None) -> Iterator[Path]:
    """A private folder of this user, removed after the block."""
    folder = Path(tempfile.gettempdir() if base is None else base).absolute()
    _sweep(folder)
    owner, path = os.getpid(), Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
    with ExitStack() as stack:
        stack.callback(_remove, path, owner)
        handle = os.open(path, os.O_RDONLY)
        stack.callback(os.close, handle)
        is_free(handle)
        yield path


def _remove(folder: Path, owner: int) -> None:
    """Remove a folder, unless this is a fork of its owner, in several tries: what is being killed may still write."""
    for _ in range(_TRIES if os.getpid() == owner else 0):
        with suppress(OSError):  # of its own close, for which rmtree calls close again
            shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_TICK / 5)


@functools.cache
def _sweep(folder: Path) -> None:
    """Remove folders that killed processes of this user left, the first time that this process asks."""
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError), ExitStack() as stack:  # another user's, or gone
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            stack.callback(os.close, handle)
            status = os.fstat(handle)
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _YOUNG and is_free(handle):
                shutil.rmtree(path, ignore_errors=True)


_stops: contextvars.ContextVar[tuple[threading.Event, ...]] = contextvars.ContextVar("_stops", default=())
"""Set when the pools of threads end that this thread works for."""


@contextmanager
def threads(jobs: int | None) -> Iterator[ThreadPoolExecutor]:
    """Threads whose children end with them: an exception that leaves the block kills them and starts no more."""
    stop = threading.Event()
    stops = (*_stops.get(), stop)
    with ThreadPoolExecutor(jobs, initializer=_stops.set, initargs=(stops,)) as pool:
        try:
            yield pool
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _started(command: Sequence[str], **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """A child, until the end of the block."""
    program = command[0]
    path = os.path.join(options["cwd"] or "", program) if os.path.dirname(program) else program
    if shutil.which(path, path=options["env"].get("PATH")) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    launch = [sys.executable, "-I", "-S", launcher.__file__, str(os.getpid())]
    with subprocess.Popen([*launch, *command], start_new_session=True, **options) as child:
        try:
            yield child
        except BaseException:
            kill_below(child.pid)
            raise
        finally:
            with suppress(ProcessLookupError, PermissionError):  # all have ended
                os.killpg(child.pid, signal.SIGKILL)


def kill_below(process: int) -> None:
    """Kill all that a process has started, and what these have."""
    import psutil  # noqa: PLC0415  # most often, all have ended

    with suppress(psutil.Error):  # it has ended
        for each in psutil.Process(process).children(recursive=True):
            with suppress(psutil.Error):
                each.kill()


def _has_ended(child: "subprocess.Popen[bytes]") -> bool:
    """Wait for a tick, at most. A child that has ended is not reaped, so that its group's number stays its own."""
    with ExitStack() as stack, suppress(AttributeError, OSError):  # another system, or an old kernel
        handle = os.pidfd_open(child.pid)
        stack.callback(os.close, handle)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(1000 * _TICK))
    with suppress(subprocess.TimeoutExpired):
        child.wait(_TICK)
    return child.returncode is not None
