"""Simulation of the matrix unit from Python: bit for bit, and clock by clock."""

from openmxu.runtime.sources import Sources

SOURCES = (Sources("openmxu_sim"),)
"""What simulations follow from besides the hardware, as of before it is imported."""

from openmxu_sim.product import Product, Statistics, matmul, simulate

__all__ = ["Product", "Statistics", "matmul", "simulate"]
