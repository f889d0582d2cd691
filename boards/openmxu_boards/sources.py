"""The source files of systems on boards, in their state before they are imported."""

import openmxu
from openmxu.runtime.sources import Sources

SOURCES = (*openmxu.SOURCES, Sources("openmxu_boards"))
"""The source files of the hardware and of this package; see :mod:`openmxu.runtime.sources`."""
