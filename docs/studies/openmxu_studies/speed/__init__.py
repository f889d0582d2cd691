"""Speeds of the engines on this machine: the same work on each, in one run, as medians.

Every measurement is a process of its own, with an empty cache, so that builds are whole and memory is its own.
"""

from openmxu_studies.speed.benchmark import Report, bench, compare, read_report, to_markdown

__all__ = ["Report", "bench", "compare", "read_report", "to_markdown"]
