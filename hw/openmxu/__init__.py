"""An open bf16 systolic matrix unit in Amaranth, and what turns it into files and figures."""

from openmxu.runtime import moved
from openmxu.runtime.sources import Sources

__all__ = ["SOURCES"]

SOURCES = (Sources("openmxu"), Sources("amaranth"))
"""What all hardware follows from, as of before it is imported."""

moved.install()
