"""The processor's floating-point arithmetic as in IEEE 754, whatever the caller has set.

Rounding, and whether subnormal numbers are flushed, are settings of each thread. A library that was compiled with
``-ffast-math`` changes them when it is loaded, and some programs change them on purpose. numpy, numba and C code
compute with whatever is set.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

_SIZE = 512
"""Bytes for a ``fenv_t``: on all systems more than it has."""

_LARGEST_SUBNORMAL = np.uint32(0x007FFFFF).view(np.float32)
_TINY = np.float32(2.0**-30)
_ONE = np.float32(1)


def _load() -> tuple[ctypes.CDLL, object] | None:
    """Return the C library that has the settings, and its pointer to the default ones; ``None`` where there is none."""
    try:
        library = ctypes.CDLL(None)
        library.fegetenv, library.fesetenv  # noqa: B018  # whether they are there
    except (AttributeError, OSError, TypeError):
        return None
    try:
        default: object = ctypes.c_byte.in_dll(library, "_FE_DFL_ENV")  # macOS
    except ValueError:
        return library, ctypes.c_void_p(-1)  # glibc and musl: FE_DFL_ENV
    return library, ctypes.byref(default)  # type: ignore[arg-type]


_found = _load()


@contextmanager
def ieee_arithmetic() -> Iterator[None]:
    """Compute as IEEE 754 says, in this thread: to nearest, ties to even, with subnormal numbers, without traps.

    Afterwards the settings are as before. Also a decorator. Takes a few microseconds.
    """
    if _found is None:
        _check()
        yield
        return
    library, default = _found
    before = (ctypes.c_uint64 * (_SIZE // 8))()
    library.fegetenv(before)
    library.fesetenv(default)
    try:
        _check()
        yield
    finally:
        library.fesetenv(before)


def _check() -> None:
    """Raise an error if settings are not those of IEEE 754."""
    up, down = _ONE + _TINY, _ONE - _TINY
    if _LARGEST_SUBNORMAL * _ONE == 0 or up != _ONE or down != _ONE or -up != -_ONE:
        raise RuntimeError(
            "the processor must round to nearest and keep subnormal numbers in this thread; a library "
            "compiled with -ffast-math may have changed that, and it cannot be changed back here"
        )
