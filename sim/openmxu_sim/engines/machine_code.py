"""Code compiled by numba, stored in the project's own cache.

numba's cache knows no digests: a damaged file is unpickled, or run. Here its files exist only while functions are
compiled or loaded, in a temporary folder; in between they are one entry of :mod:`openmxu.cache`.
"""

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from numba import config, njit

from openmxu import cache, host, process
from openmxu.sources import Sources, digest_all, still_all

__all__ = ["Compiler", "kept_code"]


class Compiler:
    """Compiles functions, or loads what an earlier process has compiled for this processor.

    Attributes
    ----------
    functions
        How many there have been.
    loaded
        How many of them were loaded.
    """

    def __init__(self) -> None:
        self.functions = self.loaded = 0

    def __call__(self, signature: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function's machine code, for one signature."""
        try:
            compiled = njit(signature, nogil=True, cache=True)(function)
        except (RuntimeError, OSError):  # there is nowhere to write, or no space
            compiled = njit(signature, nogil=True)(function)
        self.functions += 1
        self.loaded += bool(compiled.stats.cache_hits)
        return compiled


@contextmanager
def kept_code(file: str, sources: tuple[Sources, ...]) -> Iterator[Compiler]:
    """What compiles the functions of a module.

    If it has not loaded all of them, the block must try them. If that raises, nothing is cached.

    Parameters
    ----------
    file
        The module that contains the block.
    sources
        What that module was imported from.
    """
    digest = digest_all(sources)
    settings = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_"))
    # numba takes a file's time for its version.
    key = cache.key(
        "numba",
        str(digest),
        file,
        f"{os.stat(file).st_mtime_ns}",
        version("numba"),
        version("llvmlite"),
        platform.python_version(),
        host.processor(),
        *settings,
    )
    kept = None if digest is None else cache.find("models", key)
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(process.workspace())
            if kept is not None:
                cache.unpack(kept, folder)
        except OSError:
            folder, kept = Path(os.devnull, "none"), None
        stack.enter_context(_numba_cache(folder))
        compiler = Compiler()
        yield compiler
        is_new = compiler.loaded < compiler.functions == len(list(folder.rglob("*.nbc")))
        if is_new and digest is not None and still_all(sources):
            cache.discard("models", key)
            cache.keep("models", key, cache.pack(folder))


@contextmanager
def _numba_cache(folder: Path) -> Iterator[None]:
    """Let numba's cache be this folder."""
    wanted = {"CACHE_DIR": str(folder), "CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}
    before = {setting: getattr(config, setting, "") for setting in wanted}
    try:
        for setting, value in wanted.items():
            setattr(config, setting, value)
        yield
    finally:
        for setting, value in before.items():
            setattr(config, setting, value)
