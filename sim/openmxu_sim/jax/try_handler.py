"""Trial of the handler just compiled, in a process of its own: it may be anything, and do anything.

The process is ``python -m openmxu_sim.jax.try_handler LIBRARY``. It ends with
:data:`~openmxu_sim.engines.library.RIGHT` if products of operands of every kind have the golden model's bits where XLA
calls the handler.
"""

import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from openmxu_sim import golden
from openmxu_sim.engines.library import RIGHT
from openmxu_sim.engines.model.try_kernel import CASES
from openmxu_sim.jax.foreign import call, register
from openmxu_sim.netlist.native import open_library
from openmxu_sim.networks.numerics import Numerics
from openmxu_sim.operands import vectors

_NAME = "openmxu_trial"
_COUNT, _M, _K, _N = 2, 13, 9, 33
"""Sizes of the products: more rows and columns than a band and a panel of any processor."""


def main(library: str) -> None:
    """Run the products; end the process where one is wrong."""
    jax.config.update("jax_platforms", "cpu")
    try:
        register(_NAME, open_library(Path(library).read_bytes()))
    except (OSError, AttributeError) as error:
        sys.exit(str(error))
    for mode, case in CASES:
        numerics = Numerics(**case, subnormals=mode, rows=4)
        compiled = jax.jit(lambda a, b, numerics=numerics: call(_NAME, numerics, a, b))
        for kind in ("all", "normal"):
            a, b = _operands((_COUNT, _M, _K), kind, 1), _operands((_COUNT, _N, _K), kind, 2).swapaxes(1, 2)
            products = np.asarray(compiled(a, b))
            right = [golden.matmul(*pair, rows=4, subnormals=mode, **case) for pair in zip(a, b, strict=True)]
            wrong = np.count_nonzero(golden.to_bits(products) != golden.to_bits(np.array(right)))
            if wrong:
                sys.exit(f"{wrong} of {products.size} elements of known products are wrong ({mode}, {case})")
    print(RIGHT)


def _operands(shape: tuple[int, int, int], kind: str, seed: int) -> Any:
    rows = vectors.matrix((shape[0] * shape[1], shape[2]), "fp32", seed, kind=kind)
    return golden.from_bits(rows).reshape(shape)


if __name__ == "__main__":
    main(*sys.argv[1:])
