"""C source text whose allocations fail in turn."""

import ctypes

_ALLOCATIONS = ("malloc(size)", "calloc(count, size)", "realloc(old, size)", "aligned_alloc(align, size)")


def scarce(source: str) -> str:
    """The text with a count of allocations until one fails; 0 for none."""
    macros = (f"#define {call} (--left ? {call} : NULL)" for call in _ALLOCATIONS)
    return "\n".join(["#include <stdlib.h>", "long left;", *macros, source])


def fail_at(library: ctypes.CDLL, number: int) -> None:
    """Let a library's allocation of this number, from now on, fail."""
    ctypes.c_long.in_dll(library, "left").value = number


def enough(library: ctypes.CDLL) -> bool:
    """Whether the allocation that was to fail was not reached."""
    return ctypes.c_long.in_dll(library, "left").value > 0
