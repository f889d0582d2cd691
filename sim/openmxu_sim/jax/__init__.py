"""JAX with the bits of the unit.

::

    import openmxu_sim.jax as mxu

    gradient = jax.jit(mxu.on_unit(jax.grad(loss), operand="bf16"))
    c = mxu.matmul(a, b, operand="fp8_e4m3")

``on_unit`` changes a function: the unit computes every ``dot_general``, ``ragged_dot`` and convolution in it, in loops,
branches, ``shard_map`` and derivatives, too. XLA computes the rest. Results leave the unit in fp32 and are rounded to
XLA's type.
"""

from openmxu_sim.jax.interpreter import on_unit
from openmxu_sim.jax.primitives import matmul
from openmxu_sim.networks.numerics import EscapeError

__all__ = ["EscapeError", "matmul", "on_unit"]
