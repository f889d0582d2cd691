"""Shared libraries that are built where they are not in the cache yet, and tried before they are kept."""

import logging
import os
import sys
from collections.abc import Callable
from typing import TypeVar

from openmxu.runtime import cache, machine, native, process
from openmxu.runtime.native import CompilationError
from openmxu.runtime.process import TimeLimitError

_log = logging.getLogger(__name__)

OTHER_BITS = 3
"""Exit status of a trial whose result differs from the known one."""

RIGHT = "the bits are right"
"""Last line of a trial with the known result: exit status 0 does not show it, as a library can end the process so."""

_LIMIT = 120.0
"""Time limit of a trial in seconds; the trial of a unit of 256x256 takes one."""

_T = TypeVar("_T")


def fetch_library(
    text: str, open_library: Callable[[bytes], _T], check: Callable[[bytes], bool], *, note: str = ""
) -> _T:
    """Open the library of a C source text by ``open_library``; it is taken from the cache or built now.

    Without a compiler, a cached library is used if any compiler built it with ``CC`` unset, and ``check`` accepted it.
    """
    parts = text, machine.processor()
    plain = cache.key("plain", *parts)
    try:
        key = cache.key(native.compiler_identity(), *parts)
    except native.CompilerNotFoundError:
        binary = None if os.environ.get("CC") else cache.find("models", plain)
        if binary is None:
            raise
        return open_library(binary)

    def build() -> bytes:
        if note:
            _log.warning(note)
        library = native.build_library(text)
        if check(library) and not os.environ.get("CC"):
            cache.keep("models", plain, library)
        return library

    try:
        return open_library(cache.fetch("models", key, build))
    except (OSError, AttributeError):
        cache.discard("models", key)
        return open_library(cache.fetch("models", key, build))


def try_library(
    library: bytes, module: str, *arguments: str, what: str, excused: Callable[[], bool] = lambda: False
) -> bool:
    """Try a new library, which may do anything, in ``python -m module LIBRARY arguments``; whether it is right."""
    with process.workspace() as folder:
        file = folder / "library.so"
        file.write_bytes(library)
        command = [sys.executable, "-P", "-m", module, str(file), *arguments]
        try:
            done = process.run(command, what=what, limit=_LIMIT)
        except TimeLimitError as error:
            raise CompilationError(f"C compiler made code that does not work: {error}") from None
    right = done.code == 0 and done.output.endswith(f"{RIGHT}\n")
    if not right and not (done.code == OTHER_BITS and excused()):
        reason = done.errors.strip().rpartition("\n")[2] or f"it ended with {done.code} and no result"
        raise CompilationError(f"C compiler made code that does not work: {reason}")
    return right
