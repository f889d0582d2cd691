"""Networks trained with the arithmetic of units, and published ones run on them: the studies of ``openmxu study``.

They belong to the repository and are in no wheel.
"""

import openmxu_sim.sources
from openmxu.runtime.sources import Sources

__all__ = ["SOURCES"]

SOURCES = (*openmxu_sim.sources.SOURCES, Sources("openmxu_studies"))
"""Sources that trained networks depend on."""
