"""Area: designs through Yosys, on gates, cell libraries and FPGAs, and reports about it."""

from openmxu.area.finding.findings import Report
from openmxu.area.pages.table import to_table
from openmxu.area.report import FILES, TIME_LIMIT, report
from openmxu.area.run.measure import Result
from openmxu.area.subject.points import PART_NAMES, PARTS, Point, default_points, full_points, quick_points
from openmxu.area.target.targets import DEFAULT_TARGETS, RECIPES, TARGETS

__all__ = [
    "DEFAULT_TARGETS",
    "FILES",
    "PARTS",
    "PART_NAMES",
    "RECIPES",
    "TARGETS",
    "TIME_LIMIT",
    "Point",
    "Report",
    "Result",
    "default_points",
    "full_points",
    "quick_points",
    "report",
    "to_table",
]
