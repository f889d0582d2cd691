"""Networks trained with the arithmetic of units, and published ones run on them: the studies of ``openmxu study``.

They belong to the repository and are in no wheel.
"""

import openmxu_evidence
from openmxu.runtime.sources import Sources

__all__ = ["SOURCES"]

SOURCES = (*openmxu_evidence.SOURCES, Sources("openmxu_studies"))
"""Sources that trained networks depend on."""
