"""The layout of an ``area.json``, for comparing and explaining; :mod:`openmxu.area.pages.export` writes it."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from openmxu.runtime.files import read_input

SCHEMA = 2
"""Version of the layout of ``area.json``: increased whenever a reader would have to change."""

_MOST_BYTES = 256 << 20
"""Largest size of a file in bytes; a full report has 20 MB."""

_TEXT = {"type": "string"}
_COUNT = {"type": "integer"}
_NUMBER = {"type": ["number", "null"], "minimum": 0, "maximum": 1e18}
_OPTIONS = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


def _object(optional: Mapping[str, Any] = MappingProxyType({}), **properties: Any) -> dict[str, Any]:
    """An object with these properties, and any others, of which the optional ones are checked where they are there."""
    return {"type": "object", "properties": {**properties, **optional}, "required": list(properties)}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _all(kind: Any, names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), kind)


_FIGURES = {**_all(_TEXT, "target recipe unit"), **_all(_NUMBER, "area flip_flops memory_bits")}
_RUN = {
    **_all(_TEXT, "name top figure rtlil_sha256 script error"),
    "options": _OPTIONS,
    **_FIGURES,
    **_all(_NUMBER, "depth delay_ns"),
}
_LIBRARY = {"oneOf": [{"type": "null"}, _object(name=_TEXT, sha256=_TEXT)]}
_ENERGY = {
    **_all(_TEXT, "name target recipe figure operands error"),
    **_all(_NUMBER, "clock flip_flops logic at_once spread total cycles seeds"),
}
_REPORT = _object(
    # The first reports had none of these.
    {
        "openmxu": _TEXT,
        "reordered": _list(_object(**_RUN)),
        "energies": _list(_object({"multiply_add": _NUMBER}, **_ENERGY)),
    },
    schema=_COUNT,
    tool=_TEXT,
    targets=_list(_object(**_all(_TEXT, "name title recipe"), library=_LIBRARY)),
    results=_list(_object({"area_per_multiply_add": _NUMBER}, **_RUN)),
    catalog=_list(_object(design=_TEXT, **_FIGURES, terms=_list(_object(count=_COUNT, **_RUN)))),
)


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


def _runs(report: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Everything that names a target, and its place in the report."""
    for name in ("results", "reordered"):
        for index, run in enumerate(report.get(name, ())):
            yield f"data.{name}[{index}]", run
    for index, entry in enumerate(report["catalog"]):
        for number, term in enumerate(entry["terms"]):
            yield f"data.catalog[{index}].terms[{number}]", term


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large a number")
    return value
