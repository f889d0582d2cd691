"""Reliable standard streams, whatever the caller has closed, filled or chosen as a locale."""

import io
import os
import shutil
import sys
import textwrap
from contextlib import suppress
from typing import Any, TextIO


class _Output(io.FileIO):
    """Standard output, which remembers that it failed, even if the error was ignored."""

    error: OSError | None = None

    def write(self, content: Any) -> int:
        """Write as to any file, and remember a failure."""
        try:
            return super().write(content)
        except OSError as error:
            self.error = error
            raise


def open_streams() -> None:
    """Prepare the standard streams of a process.

    No file gets the number of a closed stream. Writing to a closed standard output is an error; writing to a closed
    standard error is ignored. Characters that an encoding lacks are escaped.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest number that is free is this one
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  # stays open like any standard stream
    stream = sys.stdout
    if stream is not sys.__stdout__:
        return  # somebody else's, or prepared already
    lines = stream is not None and (stream.line_buffering or stream.write_through)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Output(1, "w", closefd=False)),
        line_buffering=lines,
        encoding=None if stream is None else stream.encoding,
        errors="backslashreplace",
    )


def abandon_output() -> OSError | None:
    """Flush standard output; returns the error if that fails, and then drops the rest."""
    error = None
    try:
        sys.stdout.flush()
    except OSError as failure:
        error = failure
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Output):
        error = error or raw.error
    if error is not None:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return error


def printable(text: str) -> str:
    """``text`` in one line that is safe on a terminal: control characters and lone surrogates are escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def folded(text: str, stream: TextIO) -> str:
    """``text`` with its lines broken between words where ``stream`` is a terminal; rows of Markdown tables stay."""
    if not stream.isatty():
        return text
    columns = shutil.get_terminal_size().columns
    wrapper = textwrap.TextWrapper(
        columns, replace_whitespace=False, expand_tabs=False, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(
        line if len(line) <= columns or line.startswith("|") else wrapper.fill(line) for line in text.split("\n")
    )
