"""Cleans up after a process, however it ends: ``python -I -S watcher.py TOKEN``; see :mod:`openmxu.runtime.process`.

Standard input is a pipe that closes when the process ends. Each message ends with a zero byte: ``+group 123`` and
``-group 123`` (a group of processes comes, goes), ``+path /tmp/x`` and ``-path /tmp/x``, ``+empty /tmp/x`` and
``-empty /tmp/x`` (a folder that goes if it is empty), ``done`` (the process ends in good order), ``end`` (do not wait
for the end of the file).
"""

import os
import signal
import sys
import time
from contextlib import suppress

ANCESTORS = "OPENMXU_ANCESTORS"
"""Environment variable that marks the descendants of a process: tokens, separated by colons."""

_PAUSE = 0.02
"""Seconds between two checks."""

_LOOKS = 100
"""Checks after which a process or file that does not go away is given up."""


def main(token: str) -> None:
    """Wait for the end of the process, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # only the process's end ends this one
        signal.signal(number, signal.SIG_IGN)
    left, orderly = _listen()
    for word in left:
        kind, _, group = word.partition(b" ")
        if kind == b"group":
            kill_group(int(group))
    if not orderly:
        kill_descendants(token)
    for word in reversed(left):  # a later path may be inside of an earlier one
        kind, _, path = word.partition(b" ")
        if kind == b"path":
            remove(os.fsdecode(path))
        elif kind == b"empty":
            with suppress(OSError):
                os.rmdir(path)


def _listen() -> tuple[list[bytes], bool]:
    """The words that are left at the end, and whether the process has ended in good order."""
    left: dict[bytes, None] = {}  # a set in the order of arrival
    rest = b""
    while data := os.read(0, 1 << 16):
        *messages, rest = (rest + data).split(b"\0")
        for message in messages:
            if message in (b"done", b"end"):
                return list(left), message == b"done"
            if message.startswith(b"+"):
                left[message[1:]] = None
            else:
                left.pop(message[1:], None)
    return list(left), False


def kill_group(group: int) -> None:
    """Kill a group of processes."""
    with suppress(ProcessLookupError, PermissionError):  # it has ended
        os.killpg(group, signal.SIGKILL)


def kill_descendants(token: str) -> None:
    """Kill the processes with a token that begins with ``token``, also those that have left their group.

    It stops when two checks in a row find none, as a process that is being started carries the token a moment later.
    """
    none = 0
    for _ in range(_LOOKS if os.path.isdir("/proc/self") else 0):
        none = 0 if _kill_marked(token.encode()) else none + 1
        if none == 2:
            return
        time.sleep(_PAUSE)


def _kill_marked(token: bytes) -> bool:
    """Kill the marked processes that one pass finds; whether there was any."""
    has_marked = False
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            # First the handle, then the check: a number that is given to another process meanwhile does no harm.
            handle = os.pidfd_open(int(name))
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    variables = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
                if any(entry.startswith(token) for entry in variables.get(ANCESTORS.encode(), b"").split(b":")):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                    has_marked = True
            finally:
                os.close(handle)
        except OSError:  # ended, or somebody else's
            continue
    return has_marked


def remove(path: str) -> None:
    """Remove a file or a folder of this user, in several tries: a process being killed may still write into it."""
    import shutil  # noqa: PLC0415  # most often there is nothing to remove, and this takes as long as all the rest

    for _ in range(_LOOKS):
        try:
            if os.lstat(path).st_uid != os.getuid():
                return
        except OSError:
            return
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                os.unlink(path)
        if not os.path.lexists(path):
            return
        time.sleep(_PAUSE)


if __name__ == "__main__":
    main(sys.argv[1])
