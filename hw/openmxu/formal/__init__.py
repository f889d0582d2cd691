"""Proofs: what holds for all operands, shown by solvers."""
