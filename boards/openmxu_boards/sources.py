"""The files that systems on boards follow from, as they were before they were imported."""

import openmxu
from openmxu.runtime.sources import Sources

SOURCES = (*openmxu.SOURCES, Sources("openmxu_boards"))
"""The hardware's, and this package's own; see :mod:`openmxu.runtime.sources`."""
