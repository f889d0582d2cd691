"""Simulation of the matrix unit from Python: bit for bit, and clock by clock."""

from openmxu_sim.product import Product, Statistics, matmul, simulate

__all__ = ["Product", "Statistics", "matmul", "simulate"]
