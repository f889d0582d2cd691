"""Proofs, explorations, sweeps, mutants and benches: the evidence of ``openmxu verify``.

They belong to the repository and are in no wheel.
"""

import openmxu_sim.sources
from openmxu.runtime.sources import Sources

__all__ = ["SOURCES"]

SOURCES = (*openmxu_sim.sources.SOURCES, Sources("openmxu_evidence"), Sources("openmxu_studies"))
"""Sources that checks depend on; the last has the faults, and an engine to compare with."""
