"""Devices share products, each on a unit of its own: a test runs it on four, and another one on what there is."""

import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, PartitionSpec

import openmxu_sim.jax as mxu


def main(check_vma: bool, count: int) -> None:
    """Rows on each device with the same weights, and parts of the inner dimension: forward and backward."""
    mesh = jax.make_mesh((count,), ("x",), axis_types=(AxisType.Auto,))
    a, b = (jnp.arange(64.0).reshape(8, 8) % each - each // 2 for each in (5, 7))
    along, across, whole = PartitionSpec("x"), PartitionSpec(None, "x"), PartitionSpec()

    def rows(multiply):
        return jax.shard_map(multiply, mesh=mesh, in_specs=(along, whole), out_specs=along, check_vma=check_vma)

    def parts(multiply):
        summed = lambda a, b: jax.lax.psum(multiply(a, b), "x")  # noqa: E731
        return jax.shard_map(summed, mesh=mesh, in_specs=(across, along), out_specs=whole, check_vma=check_vma)

    def gradients(multiply):
        return jax.grad(lambda a, b: (multiply(a, b) * (a + 1)).sum(), (0, 1))

    for share in (rows, parts):
        for function in (lambda multiply: multiply, gradients):
            expected = function(jnp.matmul)(a, b)
            for found in (
                mxu.on_unit(function(share(jnp.matmul)), operand="fp32"),
                function(mxu.on_unit(share(jnp.matmul), operand="fp32")),
                function(share(lambda a, b: mxu.matmul(a, b, operand="fp32"))),
                function(share(mxu.on_unit(jnp.matmul, operand="fp32"))),
            ):
                jax.tree.map(partial(np.testing.assert_array_equal, strict=True), jax.jit(found)(a, b), expected)
                assert "dot_general" not in jax.jit(found).lower(a, b).as_text()


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    for each in (True, False):
        main(each, 4)
    print("agreed", flush=True)
