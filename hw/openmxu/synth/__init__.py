"""Area: designs through Yosys, on gates, cell libraries and FPGAs, and reports about it."""

from openmxu.synth.points import Point, default_points, quick_points
from openmxu.synth.report import report
from openmxu.synth.results import Report, Result
from openmxu.synth.table import to_table
from openmxu.synth.targets import RECIPES, TARGETS

__all__ = ["RECIPES", "TARGETS", "Point", "Report", "Result", "default_points", "quick_points", "report",
           "to_table"]
