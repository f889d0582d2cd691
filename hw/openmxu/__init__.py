"""An open bf16 systolic matrix unit in Amaranth, and the tools that turn it into files and figures."""

from openmxu.runtime.sources import Sources

__all__ = ["SOURCES"]

SOURCES = (Sources("openmxu"), Sources("amaranth"))
"""The source files of all hardware, in their state before they are imported."""
