"""What tests of JAX share: integers, comparisons, and whether there is a handler."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from openmxu_sim.jax.foreign import find_handler

needs_handler = pytest.mark.skipif(find_handler() is None, reason="there is no C compiler, or no header of JAX's")


def integers(*shape: int, seed: int = 0, most: int = 6) -> Any:
    """Products and sums of these are exact in bf16, in any order."""
    return jax.random.randint(jax.random.key(seed + sum(shape)), shape, -most, most + 1).astype(jnp.float32)


def agree(found: Any, expected: Any) -> None:
    """Fail unless arrays, or trees of them, have the same types, shapes and numbers."""
    jax.tree.map(partial(np.testing.assert_array_equal, strict=True), found, expected)
