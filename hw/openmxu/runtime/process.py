"""Starts child processes and makes temporary folders, and ensures that neither outlives this process.

On Linux nothing outlives the process that made it, whether that returns, fails, is interrupted or is killed::

    this process ──── pipe ────> watcher, in a session of its own:
      │ run()                    at the end of the pipe it kills the groups that are left
      └─ child, leader of a      and removes the folders that are left
         group of its own
           └─ grandchildren

The watcher (:mod:`openmxu.runtime.watcher`) starts with the first child or folder. A folder is
registered with it before it is made, a group right after its child has started. If this process is killed in between,
the watcher finds the child by a token in its environment, likewise a child that has left its group. A group is killed
before its leader is reaped, so that its number is never that of another one.

The owner of a folder locks it. Where the watcher has been killed, too, the next process that makes a folder removes
those that nobody has locked.
"""

import atexit
import contextvars
import itertools
import json
import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from openmxu.runtime.locks import fcntl
from openmxu.runtime.watcher import ANCESTORS, kill_descendants, kill_group, remove
from openmxu.runtime.watcher_client import watch

_PREFIX = "openmxu-work-"


_TICK = 0.1
"""Seconds between two checks of a running child."""


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
    lines: Callable[[str], None] | None = None,
    tick: Callable[[], None] | None = None,
) -> Done:
    """Run a program to its end, in a group of its own, which ends with this call in any case."""
    with ExitStack() as stack:
        scratch = stack.enter_context(workspace())
        (scratch / "tmp").mkdir()
        (scratch / "input").write_text(text, encoding="utf-8")
        names = [scratch / "output", scratch / "errors"] if log is None else [log]
        files = [stack.enter_context(name.open("wb")) for name in names]
        tails = [stack.enter_context(_Tail(name, lines)) for name in names] if lines else []
        inherited = os.environ if environment is None else environment
        variables = {**inherited, "TMPDIR": str(scratch / "tmp")}
        deadline = None if limit is None else time.monotonic() + limit
        with _started(command, directory, variables, scratch / "input", *files) as child:
            while not _has_ended(child, _TICK):
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeLimitError(
                        f"{what} took longer than {limit:g} s and was ended; "
                        f"does {Path(command[0]).name} run by itself?"
                    )
                for tail in tails:
                    tail.tell()
                if tick is not None:
                    tick()
        for tail in tails:
            tail.tell(last=True)
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
    """A private folder of this user, removed after the block, also where this process is killed."""
    folder = Path(tempfile.gettempdir() if base is None else base).absolute()
    _sweep(folder)
    while True:
        path = folder / f"{_PREFIX}{secrets.token_hex(8)}"
        with transient(path):
            path.mkdir(mode=0o700)
            with ExitStack() as stack:
                try:
                    stack.callback(os.close, _lock(path))
                except (BlockingIOError, FileNotFoundError):  # another process has removed it as a leftover
                    continue
                except OSError:  # without locks no process removes it
                    pass
                yield path
        return


@contextmanager
def transient(path: Path) -> Iterator[None]:
    """Remove a file or folder after the block, also where this process is killed in it.

    Enter the block before the file is made, under a name that nobody else uses.
    """
    with _told(b"path", path, lambda: remove(str(path))):
        yield


@contextmanager
def vacant(path: Path) -> Iterator[None]:
    """Remove a folder after the block if it is empty; see :func:`transient`."""

    def go() -> None:
        with suppress(OSError):  # not made, or in use
            path.rmdir()

    with _told(b"empty", path, go):
        yield


@contextmanager
def _told(kind: bytes, path: Path, go: Callable[[], None]) -> Iterator[None]:
    """Register a path with the watcher for the block; ``go`` removes it at the end."""
    owner = os.getpid()
    word = kind + b" " + os.fsencode(path.absolute())
    watch.add(word)
    try:
        yield
    finally:
        if os.getpid() == owner:  # not a process that was forked in the block
            go()
            watch.remove(word)


@contextmanager
def threads(jobs: int | None) -> Iterator[ThreadPoolExecutor]:
    """Threads whose children end with them: an exception that leaves the block kills them and starts no more."""
    family = _Family()
    with _family.get().holding(family), ThreadPoolExecutor(jobs, initializer=_family.set, initargs=(family,)) as pool:
        try:
            yield pool
        except BaseException:
            family.end()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def stop() -> None:
    """End all children and remove all folders, within a second or two; for a process that ends right after."""
    watch.stop()


class _Tail:
    """Reader of the lines that a child has written since the last call."""

    def __init__(self, path: Path, lines: Callable[[str], None]) -> None:
        self._file = path.open("rb")
        self._lines = lines
        self._rest = b""

    def __enter__(self) -> "_Tail":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def tell(self, *, last: bool = False) -> None:
        """Pass on the new lines; with ``last`` also a final line without its end."""
        *whole, self._rest = (self._rest + self._file.read()).split(b"\n")
        if last and self._rest:
            whole.append(self._rest)
        for line in whole:
            self._lines(line.decode("utf-8", "replace"))


class _Family:
    """Children that end together, and families inside."""

    def __init__(self) -> None:
        self._members: set[Callable[[], None]] = set()
        self._lock = threading.Lock()
        self._ended = False

    @contextmanager
    def holding(self, member: "subprocess.Popen[bytes] | _Family") -> Iterator[None]:
        """Have a member until the end of the block."""
        end = member.end if isinstance(member, _Family) else lambda: _kill(member)
        with self._lock:
            self._members.add(end)
            ended = self._ended
        if ended:
            end()
        try:
            yield
        finally:
            with self._lock:
                self._members.discard(end)

    def end(self) -> None:
        """End all members, now and in future."""
        with self._lock:
            self._ended = True
            for end in self._members:
                end()


_everybody = _Family()


_family: contextvars.ContextVar[_Family] = contextvars.ContextVar("_family", default=_everybody)


_numbers = itertools.count()
"""Numbers in the tokens of children."""


_swept: set[Path] = set()
"""Folders that this process has searched for leftovers."""


os.register_at_fork(after_in_child=watch.forget)


atexit.register(watch.finish)


@contextmanager
def _started(
    command: Sequence[str], directory: Path | None, environment: Mapping[str, str], source: Path, *files: IO[bytes]
) -> Iterator["subprocess.Popen[bytes]"]:
    """A child, until the end of the block."""
    token = f"{watch.token}.{next(_numbers)}."
    tokens = ":".join([*filter(None, [environment.get(ANCESTORS)]), token])
    with source.open("rb") as stdin:
        try:
            child = subprocess.Popen(
                command,
                cwd=directory,
                env={**environment, ANCESTORS: tokens},
                stdin=stdin,
                stdout=files[0],
                stderr=files[-1],
                start_new_session=True,
            )
        except BaseException:
            kill_descendants(token)  # it may have started: what failed may be asking it how its start went
            raise
    try:
        watch.add(b"group %d" % child.pid)
        with _family.get().holding(child):
            yield child
    except BaseException:
        _end(child)
        kill_descendants(token)
        raise
    else:
        _end(child)


def _has_ended(child: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Whether a child ends within so many seconds. It is not reaped, so that its group's number stays its own."""
    try:
        handle = os.pidfd_open(child.pid)
    except (AttributeError, OSError):  # an old kernel, or another one
        with suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
        return child.returncode is not None
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(1000 * seconds))
    finally:
        os.close(handle)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Kill what is left of a child's group, and reap it."""
    _kill(child)
    watch.remove(b"group %d" % child.pid)
    child.wait()


def _kill(child: "subprocess.Popen[bytes]") -> None:
    if child.returncode is None:
        kill_group(child.pid)


def _sweep(folder: Path) -> None:
    """Remove folders that killed processes of this user left, the first time that this process asks."""
    if folder in _swept:
        return
    _swept.add(folder)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if re.fullmatch(rf"{_PREFIX}[0-9a-f]{{16}}", entry.name):
                with suppress(OSError):  # it has an owner, or is not ours
                    lock = _lock(Path(entry.path))
                    shutil.rmtree(entry.path, ignore_errors=True)
                    os.close(lock)


def _lock(path: Path) -> int:
    """Lock a folder of this user; its handle."""
    with ExitStack() as stack:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        stack.callback(os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(handle)
        if not os.path.samestat(status, os.lstat(path)):
            raise FileNotFoundError(path)
        if status.st_uid != os.getuid():
            raise PermissionError(path)
        stack.pop_all()
        return handle
