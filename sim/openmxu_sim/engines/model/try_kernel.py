"""Trial of the kernel just compiled, in a process of its own: it may be anything, and do anything.

The process is ``python -m openmxu_sim.engines.model.try_kernel LIBRARY``. It ends with
:data:`~openmxu_sim.engines.library.RIGHT` if products of operands of every kind have the golden model's bits.
"""

import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from openmxu_sim import golden
from openmxu_sim.engines import model
from openmxu_sim.engines.library import RIGHT
from openmxu_sim.engines.model.kernel import Kernel
from openmxu_sim.engines.model.placed import Side, placed_products
from openmxu_sim.operands import vectors
from openmxu_sim.operands.aliases import Floats

_CASES: tuple[dict[str, Any], ...] = (
    {"operand": "bf16"},
    {"operand": "fp32"},
    {"operand": "fp8_e4m3"},
    {"operand": "bf16", "accumulate": "bf16"},
    {"operand": "tf32", "accumulate": "fp16"},
    {"precision": "high"},
    {"precision": "highest"},
    {"terms": 4},
    {"terms": 2, "accumulate": "bf16"},
)

CASES = [(mode, case) for mode, case in product(("flush", "ieee"), _CASES) if mode == "flush" or "terms" not in case]
"""Modes and parameters that together reach every step of the kernel, and every part of operands."""


def main(library: str) -> None:
    """Run the products; end the process where one is wrong."""
    try:
        kernel = Kernel(Path(library).read_bytes())
    except (OSError, AttributeError) as error:
        sys.exit(str(error))
    m, k, n = kernel.band + 1, 9, kernel.panel + 1
    for kind, (mode, case) in product(("all", "normal"), CASES):
        a = golden.from_bits(vectors.matrix((m, k), "fp32", 1, kind=kind))
        b = golden.from_bits(vectors.matrix((n, k), "fp32", 2, kind=kind)).T
        right = golden.matmul(a, b, rows=4, subnormals=mode, **case)
        result = model.matmul(a, b, rows=4, subnormals=mode, **case, kernel=kernel)
        wrong = np.count_nonzero(golden.to_bits(result) != golden.to_bits(right))
        out = np.empty_like(right)
        placed_products(*_sides(a, b, out), 1, rows=4, subnormals=mode, **case, kernel=kernel)
        wrong += np.count_nonzero(golden.to_bits(out) != golden.to_bits(right))
        if wrong:
            sys.exit(f"{wrong} of {right.size} elements of a known product are wrong ({mode}, {case})")
    print(RIGHT)


def _sides(a: Floats, b: Floats, out: Floats) -> tuple[Side, Side, Side]:
    """Return a product as one of operands that may lie anywhere."""
    m, k, n = (np.arange(size, dtype=np.int64) for size in (*a.shape, b.shape[1]))
    left, right = (
        Side(a, m * len(k), k, 0, along_k=True),
        Side(np.ascontiguousarray(b), n, k * len(n), 0, along_k=False),
    )
    return left, right, Side(out, m * len(n), n, 0, along_k=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
