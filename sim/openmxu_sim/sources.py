"""The files that simulations depend on, as they were before they were imported."""

import openmxu
from openmxu.runtime.sources import Sources

SOURCES = (*openmxu.SOURCES, Sources("openmxu_sim"))
"""The hardware's, and this package's own; see :mod:`openmxu.runtime.sources`."""
