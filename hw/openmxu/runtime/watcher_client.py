"""The pipe to the watcher of this process, which names the groups and paths that end with the process."""

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
"""Seconds to wait for the end of the watcher."""


class _Watch:
    """The watcher, and the words that are registered with it."""

    def __init__(self) -> None:
        self._pipe = -1
        self._process: subprocess.Popen[bytes] | None = None
        self.forget()

    def add(self, word: bytes) -> None:
        """Register a group or a path."""
        self._tell(b"+" + word, lambda: self._words.add(word))

    def remove(self, word: bytes) -> None:
        """Remove a group or a path that has gone."""
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
        """Start anew in a forked process: neither the pipe nor the words are its own."""
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
        """Tell the watcher that the process ends in good order."""
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
        """Start a watcher and send it all words."""
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
                # A watcher that carried an ancestor's token would be killed with that ancestor's descendants.
                env={name: value for name, value in os.environ.items() if name != ANCESTORS},
            )
        for word in self._words:
            os.write(self._pipe, b"+" + word + b"\0")


watch = _Watch()
