"""Proofs by solvers of properties that hold for all operands."""
