"""C source text as functions of this process that compute as IEEE 754 says."""

import ctypes

from openmxu.runtime import native
from openmxu_sim.golden.environment import ieee_arithmetic


def compile_c(source: str) -> ctypes.CDLL:
    """Compile a C source text for this very processor; returns its functions.

    The text may have GNU C with vector types. While its functions run, other threads do, too.
    """
    return open_library(native.build_library(source))


def open_library(library: bytes) -> ctypes.CDLL:
    """Return the functions of a shared library.

    The floating-point arithmetic of this thread stays as it is, also where the library's start-up code changes it, as
    that of ``-ffast-math`` does.
    """
    with ieee_arithmetic():
        return native.open_library(library)
