"""Area: designs through Yosys, on gates, cell libraries and FPGAs, and reports about it."""

from openmxu.synth.points import PARTS, Point, default_points, full_points, quick_points
from openmxu.synth.report import FILES, TIME_LIMIT, report
from openmxu.synth.results import Report, Result
from openmxu.synth.table import to_table
from openmxu.synth.targets import DEFAULT_TARGETS, RECIPES, TARGETS

__all__ = ["DEFAULT_TARGETS", "FILES", "PARTS", "RECIPES", "TARGETS", "TIME_LIMIT", "Point", "Report", "Result",
           "default_points", "full_points", "quick_points", "report", "to_table"]
