"""The pipe to the watcher of this process: what is to end with it."""

import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from openmxu.runtime.watcher import ANCESTORS, kill_group

_GONE = 2.0
"""Seconds within which what has been killed is gone."""


class _Watch:
    """The watcher, and what it has been told and not untold."""

    def __init__(self) -> None:
        self._pipe = -1
        self._process: subprocess.Popen[bytes] | None = None
        self.forget()

    def add(self, word: bytes) -> None:
        """Something comes."""
        self._tell(b"+" + word, lambda: self._words.add(word))

    def remove(self, word: bytes) -> None:
        """It has gone."""
        self._tell(b"-" + word, lambda: self._words.discard(word))

    def stop(self) -> None:
        """Have everything cleaned up now. No lock: a signal's handler may call this at any time."""
        self._stopped = True
        for word in tuple(self._words):
            kind, _, group = word.partition(b" ")
            if kind == b"group":
                kill_group(int(group))
        self._finish(b"end")

    def forget(self) -> None:
        """In a process that was forked: neither the pipe nor what is in it is its own."""
        if self._pipe >= 0:
            os.close(self._pipe)
        if self._process is not None:
            self._process.returncode = 0  # no child of this process
        self.token = secrets.token_hex(8)
        self._words: set[bytes] = set()
        self._lock = threading.Lock()
        self._pipe = -1
        self._process = None
        self._stopped = False

    def finish(self) -> None:
        """The process ends in good order."""
        self._finish(b"done")

    def _finish(self, message: bytes) -> None:
        if self._process is None:
            return
        with suppress(OSError, subprocess.TimeoutExpired):
            os.write(self._pipe, message + b"\0")
            self._process.wait(_GONE)

    def _tell(self, message: bytes, note: Callable[[], None]) -> None:
        if self._stopped:
            threading.Event().wait()  # the process is about to end: a thread that went on would only do harm
        with self._lock:
            note()
            try:
                if self._process is None:
                    raise BrokenPipeError
                os.write(self._pipe, message + b"\0")
            except BrokenPipeError:  # there is none yet, or somebody has killed it
                self._start()

    def _start(self) -> None:
        """Start a watcher and tell it all."""
        if self._pipe >= 0:
            os.close(self._pipe)
        if self._process is not None:
            self._process.wait()
        reader, self._pipe = os.pipe()
        with open(reader, "rb") as ear:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__).with_name("watcher.py")), self.token],
                stdin=ear,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                # One that carried the token of an ancestor would be killed with what it cleans up.
                env={name: value for name, value in os.environ.items() if name != ANCESTORS},
            )
        for word in self._words:
            os.write(self._pipe, b"+" + word + b"\0")


watch = _Watch()
