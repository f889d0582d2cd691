"""Simulation of the matrix unit from Python: bit for bit, and clock by clock."""

import openmxu_sim.sources  # noqa: F401  # first: it takes down the state of the files of what follows
from openmxu_sim.product import Product, Statistics, matmul, simulate

__all__ = ["Product", "Statistics", "matmul", "simulate"]
