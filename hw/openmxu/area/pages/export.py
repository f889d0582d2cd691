"""Area reports for programs: JSON with all data, CSV with the figures."""

import csv
import io
import json
from dataclasses import asdict, fields
from typing import Any

from openmxu.area.finding.findings import Cost, Entry, Fit, Interval, Ratio, Report, Spread
from openmxu.area.pages.schema import SCHEMA
from openmxu.area.run.energy import Energy
from openmxu.area.run.measure import Result
from openmxu.area.target.targets import Area, Target


def to_json(report: Report) -> str:
    """The report as JSON. Nothing in it depends on the machine or the time."""
    content = {
        "schema": SCHEMA,
        "tool": report.tool,
        "openmxu": report.made_by,
        "targets": [_target(target) for target in report.targets],
        "results": [_run(result) for result in report.results],
        "catalog": [
            {**_entry(entry), "terms": [{"count": term.count, **_run(term.result)} for term in entry.terms]}
            for entry in report.catalog
        ],
        "fits": [_finding(fit) for fit in report.fits],
        "ratios": [_finding(ratio) for ratio in report.ratios],
        "costs": [_cost(cost) for cost in report.costs],
        "energies": [_energy(energy) for energy in report.energies],
        "reordered": [{**_run(result), "order": result.point.order} for result in report.reordered],
        "spreads": [_spread(spread) for spread in report.spreads],
    }
    return json.dumps(content, indent=2) + "\n"


def to_csv(report: Report) -> str:
    """A line for each result and each design of the catalog. Options and cells are lists of ``name=value``."""
    text = io.StringIO()
    rows = [*map(_result, report.results), *map(_entry, report.catalog)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, [*columns, "tool"], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        lists = {
            name: " ".join(f"{key}={value}" for key, value in (row[name] or {}).items())
            for name in ("options", "cells")
        }
        writer.writerow({name: _cell(value) for name, value in {**row, **lists, "tool": report.tool}.items()})
    return text.getvalue()


def _cell(value: Any) -> Any:
    """A value that no spreadsheet takes for a formula, whoever wrote it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _at(target: Target) -> dict[str, str]:
    return {"target": target.name, "recipe": target.recipe}


def _target(target: Target) -> dict[str, Any]:
    names = ("name", "title", "recipe", "unit", "timing", "script")
    library = (
        {name: getattr(target.library, name) for name in ("name", "sha256", "nand2", "nand2_area")}
        if target.library
        else None
    )
    return {**{name: getattr(target, name) for name in names}, "library": library}


def _result(result: Result) -> dict[str, Any]:
    point, area = result.point, result.area
    return {
        "name": point.name,
        "part": point.kind,
        "variant": point.variant,
        "format": point.format and str(point.format),
        "significand_width": point.width,
        "exponent_width": point.format and point.format.exponent_width,
        "options": dict(point.options),
        **_at(result.target),
        "status": "measured" if area else "failed",
        "unit": result.target.unit,
        **_figures(area),
        "area_per_multiply_add": area.area / point.terms if area and point.is_element else None,
        "depth": result.depth,
        "delay_ns": result.delay,
        "note": result.note,
        "error": result.error,
        "rtlil_sha256": result.rtlil_sha256,
        "figure": result.figure,
    }


def _run(result: Result) -> dict[str, Any]:
    """A result with the data to repeat it."""
    return {**_result(result), "top": result.point.top, "script": result.script}


def _entry(entry: Entry) -> dict[str, Any]:
    """A design of the catalog."""
    return {
        "design": entry.design.name,
        "processing_elements": entry.design.cells,
        "options": entry.design.domain,
        **_at(entry.target),
        "status": entry.status,
        "unit": entry.target.unit,
        **_figures(entry.area),
    }


def _figures(area: Area | None) -> dict[str, Any]:
    return {field.name: area and getattr(area, field.name) for field in fields(Area)}


def _finding(finding: Fit | Ratio) -> dict[str, Any]:
    """A fit or ratio, its target by name."""
    values = {field.name: getattr(finding, field.name) for field in fields(finding)}
    intervals = {name: asdict(value) for name, value in values.items() if isinstance(value, Interval)}
    return {**values, **intervals, **_at(finding.target)}


def _energy(energy: Energy) -> dict[str, Any]:
    """An energy in pJ a cycle; without figures where there is none."""
    names = ("cycles", "seeds", "clock", "flip_flops", "logic", "at_once", "spread", "total")
    return {
        "name": energy.point.name,
        **_at(energy.target),
        "operands": energy.operands,
        **{name: None if energy.error else getattr(energy, name) for name in names},
        "multiply_add": energy.multiply_add if energy.point.is_element and not energy.error else None,
        "error": energy.error,
        "figure": energy.result.figure,
    }


def _spread(spread: Spread) -> dict[str, Any]:
    """The spread of a design over orders."""
    return {
        "name": spread.result.point.name,
        **_at(spread.result.target),
        "orders": 1 + len(spread.others),
        "area_deviation": spread.area,
        "delay_deviation": spread.delay,
        "figure": spread.result.figure,
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "feature": cost.ablation.feature,
        "whole": cost.ablation.whole.name,
        "without": cost.ablation.without.name,
        **_at(cost.target),
        "whole_area": cost.whole,
        "without_area": cost.without,
        "saved": cost.saved,
    }
