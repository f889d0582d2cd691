"""From a netlist to a layout: placed cells, wires, masks, and checks of them, in a technology that is data."""

import openmxu
from openmxu.runtime.sources import Sources

__all__ = ["SOURCES"]

SOURCES = (*openmxu.SOURCES, Sources("openmxu_layout"))
"""The files that layouts depend on, as they were before they were imported."""
