"""Area reports for programs: JSON with all there is to know, CSV with the figures."""

import csv
import io
import json
from dataclasses import fields
from typing import Any

from openmxu.synth.results import Entry, Fit, Ratio, Report, Result
from openmxu.synth.targets import Area, Target

__all__ = ["to_csv", "to_json"]

SCHEMA = 1
"""Version of the layout of ``area.json``: one more whenever a reader would have to change."""


def to_json(report: Report) -> str:
    """The report as JSON. Nothing in it depends on the machine or the time."""
    return json.dumps({
        "schema": SCHEMA,
        "tool": report.tool,
        "targets": [_target(target) for target in report.targets],
        "results": [_run(result) for result in report.results],
        "catalog": [{**_entry(entry), "terms": [{"count": term.count, **_run(term.result)} for term in entry.terms]}
                    for entry in report.catalog],
        "fits": [_finding(fit) for fit in report.fits],
        "ratios": [_finding(ratio) for ratio in report.ratios],
    }, indent=2) + "\n"


def to_csv(report: Report) -> str:
    """A line for each result and each design of the catalog. Options and cells are lists of ``name=value``."""
    text = io.StringIO()
    rows = [*map(_result, report.results), *map(_entry, report.catalog)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, [*columns, "tool"], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        row["tool"] = report.tool
        for name in ("options", "cells"):
            row[name] = " ".join(f"{key}={value}" for key, value in (row[name] or {}).items())
        writer.writerow(row)
    return text.getvalue()


def _target(target: Target) -> dict[str, Any]:
    library = target.library
    return {
        "name": target.name,
        "title": target.title,
        "recipe": target.recipe,
        "unit": target.unit,
        "library": library and {
            "name": library.name,
            "sha256": library.sha256,
            "nand2": library.nand2,
            "nand2_area": library.nand2_area,
        },
    }


def _result(result: Result) -> dict[str, Any]:
    point, area = result.point, result.area
    return {
        "part": point.part,
        "format": point.format and point.format.name,
        "significand_width": point.width,
        "exponent_width": point.format and point.format.exponent_width,
        "options": dict(point.options),
        "target": result.target.name,
        "recipe": result.target.recipe,
        "status": "measured" if area else "failed",
        "unit": result.target.unit,
        **_figures(area),
        "error": result.error,
        "rtlil_sha256": result.rtlil_sha256,
        "figure": result.figure,
    }


def _run(result: Result) -> dict[str, Any]:
    """A result with what it takes to repeat it."""
    return {**_result(result), "top": result.point.top, "script": result.script}


def _entry(entry: Entry) -> dict[str, Any]:
    """A design of the catalog."""
    return {
        "design": entry.design.name,
        "processing_elements": entry.design.cells,
        "options": entry.design.domain,
        "target": entry.target.name,
        "recipe": entry.target.recipe,
        "status": entry.status,
        "unit": entry.target.unit,
        **_figures(entry.area),
    }


def _figures(area: Area | None) -> dict[str, Any]:
    return {field.name: area and getattr(area, field.name) for field in fields(Area)}


def _finding(finding: Fit | Ratio) -> dict[str, Any]:
    """A fit or ratio, its target by name."""
    found = {field.name: getattr(finding, field.name) for field in fields(finding)}
    return {**found, "target": finding.target.name, "recipe": finding.target.recipe}
