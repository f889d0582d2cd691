"""Matrix products on the simulated unit."""

from openmxu_sim.product.on_units import PRECISIONS, matmul, simulate
from openmxu_sim.product.results import Product, Statistics
from openmxu_sim.product.shapes import as_operand, to_stacks

__all__ = ["PRECISIONS", "Product", "Statistics", "as_operand", "matmul", "simulate", "to_stacks"]
