"""The functions of ``kernel.c``, ``packing.c`` and ``products.c``, and the number formats as it takes them."""

import ctypes
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from openmxu.runtime import native
from openmxu_sim.engines.library import fetch_library, try_library
from openmxu_sim.golden.formats import Format
from openmxu_sim.golden.setup import Definition
from openmxu_sim.netlist.native import open_library

_FRACTION_WIDTH, _FRACTION_WIDTH64 = 23, 52
"""Fraction bits of fp32 and of binary64."""

_int32, _int64, _pointer = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p


class FormatLimits(ctypes.Structure):
    """``struct format``."""

    _fields_ = [
        ("fraction_width", _int32),
        ("min_exponent", _int32),
        ("max_exponent", _int32),
        ("min_normal", ctypes.c_uint32),
        ("largest", ctypes.c_uint32),
        ("overflow", ctypes.c_uint32),
        ("grid", ctypes.c_float),
        ("min_normal64", ctypes.c_double),
        ("largest64", ctypes.c_double),
        ("overflow64", ctypes.c_double),
        ("grid64", ctypes.c_double),
    ]


class Arithmetic(ctypes.Structure):
    """``struct arithmetic``."""

    _fields_ = [
        *((name, FormatLimits) for name in ("operand", "weight", "sum", "between")),
        *((name, _int32) for name in ("flush", "terms", "guard", "rounding", "rounding_between")),
        ("seed", ctypes.c_uint32),
    ]


class Factors(ctypes.Structure):
    """``struct factors``."""

    _fields_ = [("values", _pointer), *((name, _int64) for name in ("product_step", "step", "k_step", "length"))]

    @classmethod
    def of(cls, values: npt.NDArray[np.float32], length: int) -> "Factors":
        """Return the address of (P or 1, rows or 1, blocks or 1) factors, which must be kept."""
        steps = (0 if size == 1 else stride // 4 for size, stride in zip(values.shape, values.strides, strict=True))
        return cls(values.ctypes.data, *steps, length)


class Preparation(ctypes.Structure):
    """``struct preparation``."""

    _fields_ = [
        ("element", FormatLimits),
        *((name, _int32) for name in ("flush", "divides", "converts", "stochastic", "limited", "integers")),
        *((name, ctypes.c_uint32) for name in ("seed", "stream")),
    ]


class Stack(ctypes.Structure):
    """``struct stack``."""

    _fields_ = [("words", _pointer), ("product_step", _int64), ("step", _int64), ("k_step", _int64)]


class Origin(ctypes.Structure):
    """``struct origin``."""

    _fields_ = [(name, _int64) for name in ("product", "m", "n", "columns")]


class Places(ctypes.Structure):
    """``struct places``."""

    _fields_ = [("at", _pointer), ("k_at", _pointer), ("along_k", _int32)]


@lru_cache(maxsize=64)
def limits(fmt: Format, largest: float | None = None) -> FormatLimits:
    """Return a format as the kernel takes it; ``largest``: its largest number, to which what is larger saturates."""
    smallest = fmt.min_exponent - fmt.fraction_width
    overflow = largest or (np.inf if fmt.has_infinity else np.nan)
    most = largest or fmt.max_finite

    def pattern(value: float) -> int:
        return int(np.float32(value).view(np.uint32))

    return FormatLimits(
        fmt.fraction_width,
        fmt.min_exponent,
        fmt.max_exponent,
        pattern(fmt.min_normal),
        pattern(most),
        pattern(overflow),
        2.0 ** (smallest + _FRACTION_WIDTH),
        fmt.min_normal,
        most,
        overflow,
        2.0 ** (smallest + _FRACTION_WIDTH64),
    )


def arithmetic(definition: Definition) -> Arithmetic:
    """Return formats, the mode, and ways of rounding, as the kernel takes them, with seed 0."""
    sides = definition.operand, definition.weight
    sums = definition.sums, definition.between
    return Arithmetic(
        *(limits(side.format, side.format.max_finite if side.saturate else None) for side in sides),
        *(limits(one.format) for one in sums),
        definition.flush,
        definition.terms,
        definition.sums.guard,
        *(_ROUNDINGS.index(one.rounding) for one in sums),
    )


_ROUNDINGS = ("nearest", "truncate", "stochastic")
"""As in ``enum rounding``."""


class Kernel:
    """The functions of the library, with their types; see the C files."""

    band: int
    panel: int
    """Number of rows of activations, and of columns of weights, that are packed and multiplied side by side."""

    def __init__(self, library: bytes) -> None:
        functions = open_library(library)
        for name in ("band", "panel"):
            function = getattr(functions, f"kernel_{name}")
            function.argtypes, function.restype = [], _int64
            setattr(self, name, function())
        self.part = functions.kernel_part
        self.part.argtypes = [*[_pointer] * 4, *[_int64] * 6, _pointer, _int64, _pointer, _int64, _pointer, _pointer]
        self.part.restype = _int32
        self.convert = functions.kernel_convert
        self.convert.argtypes = [_pointer, _int64, _int32, _pointer, _int32, _pointer]
        self.places = functions.kernel_places
        self.places.argtypes = [*[_pointer] * 5, _int64, *[_pointer] * 4, *[_int64] * 3, _pointer, _pointer]
        self.places.argtypes += [_int32, _pointer]
        self.places.restype = _int32
        self.peaks = functions.kernel_peaks
        self.peaks.argtypes = [_pointer, *[_int64] * 3, _int32, _pointer]
        self.prepare = functions.kernel_prepare
        self.prepare.argtypes = [_pointer, _pointer, *[_int64] * 3, *[_pointer] * 4]
        self.gather = functions.kernel_gather
        self.gather.argtypes = [_pointer, _pointer, _int64, _pointer, _int64, _pointer]
        self.scatter = functions.kernel_scatter
        self.scatter.argtypes = [_pointer, _pointer, _int64, _pointer, _int64, _int32, _pointer]
        for function in (self.convert, self.peaks, self.prepare, self.gather, self.scatter):
            function.restype = None


def kernel_source() -> str:
    """Return the text of the library."""
    parts = ("kernel", "sums", "packing", "products", "preparation")
    return "".join(native.resource(__package__, f"{name}.c") for name in parts)


@lru_cache(maxsize=1)
def load_kernel() -> Kernel:
    """Load the kernel for this processor, from the cache or built now, which takes two seconds."""
    note = "compiling the engine model for this processor, once: a few seconds"
    check = partial(try_library, module="openmxu_sim.engines.model.try_kernel", what="known products on the model")
    return fetch_library(kernel_source(), Kernel, check, note=note)
