"""Berkeley SoftFloat on arrays of patterns."""

from typing import Any

import numpy as np
import numpy.typing as npt
import softfloatpy

from openmxu_sim.golden.formats import FORMATS, Bits


def softfloat(operation: str, *operands: npt.ArrayLike) -> Bits:
    """Apply an operation, such as ``f32_add`` or ``f32_to_bf16``, to arrays that broadcast."""
    function = getattr(softfloatpy, operation)
    kind: Any = softfloatpy.Float32 if operation.startswith("f32") else softfloatpy.Float16
    size = int(operation[1:3]) // 8
    arrays = np.broadcast_arrays(*operands)
    words = [
        int.from_bytes(function(*(kind.from_bytes(each.to_bytes(size, "big")) for each in row)).to_bytes(), "big")
        for row in zip(*(array.ravel().tolist() for array in arrays), strict=True)
    ]
    return np.array(words, np.uint32).reshape(arrays[0].shape)


def flushed(bits: Bits, fmt: str = "fp32") -> Bits:
    masks = FORMATS[fmt]
    return np.where((bits & masks.exponent_mask) == 0, bits & masks.sign_bit, bits).astype(np.uint32)
