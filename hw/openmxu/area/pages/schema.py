"""The layout of an ``area.json``, for comparing and explaining; :mod:`openmxu.area.pages.export` writes it."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from openmxu.runtime.files import read_input

SCHEMA = 2
"""Version of the layout of ``area.json``: increased whenever a reader would have to change."""

_MOST_BYTES = 256 << 20
"""Largest size of a file in bytes; a full report has 20 MB."""

_TEXT = {"type": "string"}
_NUMBER = {"type": ["number", "null"], "minimum": 0, "maximum": 1e18}
_OPTIONS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


def _object(**properties: Any) -> dict[str, Any]:
    """An object with these properties, and any others."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


_FIGURES = {
    "target": _TEXT,
    "recipe": _TEXT,
    "unit": _TEXT,
    "area": _NUMBER,
    "flip_flops": _NUMBER,
    "memory_bits": _NUMBER,
}
_RUN = {
    "name": _TEXT,
    "top": _TEXT,
    "options": _OPTIONS,
    **_FIGURES,
    "depth": _NUMBER,
    "delay_ns": _NUMBER,
    "figure": _TEXT,
    "rtlil_sha256": _TEXT,
    "script": _TEXT,
    "error": _TEXT,
}
_REPORT = _object(
    schema={"type": "integer"},
    tool=_TEXT,
    targets=_list(
        _object(
            name=_TEXT,
            title=_TEXT,
            recipe=_TEXT,
            library={"oneOf": [{"type": "null"}, _object(name=_TEXT, sha256=_TEXT)]},
        )
    ),
    results=_list(_object(**_RUN)),
    catalog=_list(_object(design=_TEXT, **_FIGURES, terms=_list(_object(count={"type": "integer"}, **_RUN)))),
)
_PICOJOULES = dict.fromkeys(("clock", "flip_flops", "logic", "at_once", "spread", "total", "cycles", "seeds"), _NUMBER)
# The first reports had none of these.
_REPORT["properties"]["openmxu"] = _TEXT
_REPORT["properties"]["reordered"] = _list(_object(**_RUN))
_REPORT["properties"]["energies"] = _list(
    _object(name=_TEXT, target=_TEXT, recipe=_TEXT, figure=_TEXT, operands=_TEXT, error=_TEXT, **_PICOJOULES)
)
for _place, _name in (("results", "area_per_multiply_add"), ("energies", "multiply_add")):
    _REPORT["properties"][_place]["items"]["properties"][_name] = _NUMBER


def read_report(path: Path) -> dict[str, Any]:
    """The content of an ``area.json``; every field that is read is checked."""
    # Only these two commands need it.
    import fastjsonschema  # noqa: PLC0415

    def refusal(reason: object) -> ValueError:
        return ValueError(f"the report must be an area.json of openmxu area, not {path}: {reason}")

    text = read_input(path, _MOST_BYTES)
    try:
        report = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise refusal("it is nested too deeply") from None
    except ValueError as error:  # no JSON, no UTF-8, or a number beyond all bounds
        raise refusal(error) from None
    if isinstance(report, dict) and isinstance(report.get("schema"), int) and report["schema"] != SCHEMA:
        raise ValueError(f"the report must have the layout {SCHEMA}, not {report['schema']}: {path}")
    try:
        fastjsonschema.validate(_REPORT, report)
    except fastjsonschema.JsonSchemaValueException as error:
        raise refusal(error.message) from None
    targets = {(target["name"], target["recipe"]) for target in report["targets"]}
    for position, run in _runs(report):
        if (run["target"], run["recipe"]) not in targets:
            raise refusal(f"{position}.target must be one of data.targets, with its recipe, not {run['target']!r}")
    return dict(report)


def _runs(report: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Everything that names a target, and its place in the report."""
    results = [(f"data.results[{index}]", run) for index, run in enumerate(report["results"])]
    terms = [
        (f"data.catalog[{index}].terms[{number}]", term)
        for index, entry in enumerate(report["catalog"])
        for number, term in enumerate(entry["terms"])
    ]
    reordered = [(f"data.reordered[{index}]", run) for index, run in enumerate(report.get("reordered", ()))]
    return results + terms + reordered


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large a number")
    return value
