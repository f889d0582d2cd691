"""Errors of products on several units, side by side: as tables, JSON lines, a page, and scalars for TensorBoard."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from openmxu.pages.tables import table
from openmxu_sim.networks.errors import Errors

Rows = Sequence[Mapping[str, Any]]
"""Errors as :meth:`openmxu_sim.networks.costs.Ledger.errors_by_step` returns them."""

_KIND = ("layer", "operator", "direction", "k", "n")


def to_markdown(units: Mapping[str, Rows]) -> str:
    """Return tables of signal-to-noise ratios, largest errors and lost operands, of all steps together: a row for each
    kind of product, a column for each unit.
    """
    sums = {name: _together(rows, _KIND) for name, rows in units.items()}
    kinds = list(dict.fromkeys(kind for by_kind in sums.values() for kind in by_kind))
    heads = ["layer", "operator", "direction", "K", "N", *units]
    measures = {
        "Signal-to-noise ratio, dB": lambda errors: f"{errors.sqnr:.1f}",
        "Largest error, of the largest result": lambda errors: f"{errors.largest:.2g}",
        "Operands that conversion loses": lambda errors: f"{errors.share_lost:.2%}",
        "Results that are not finite": lambda errors: f"{errors.share_overflowed:.2%}",
    }
    lines = []
    for title, shown in measures.items():
        rows = [
            [*map(str, kind), *(shown(own[kind]) if kind in own else "" for own in sums.values())] for kind in kinds
        ]
        lines += [f"## {title}", "", table(heads, rows, words=3), ""]
    steps = {name: _together(rows, ("step",)) for name, rows in units.items()}
    numbers = sorted({step for by_step in steps.values() for step in by_step})
    if len(numbers) > 1:
        rows = [
            [str(step[0]), *(f"{own[step].sqnr:.1f}" if step in own else "" for own in steps.values())]
            for step in numbers
        ]
        lines += ["## Signal-to-noise ratio of all products, dB, by step", "", table(["step", *units], rows), ""]
    return "\n".join(lines)


def write_page(path: Path | str, title: str, units: Mapping[str, Rows]) -> None:
    """Write one HTML page that needs no other file: the tables of :func:`to_markdown`, which headings sort."""
    document = import_module("openmxu.pages.document")  # the extra area has what it needs
    text = document.render(f"# {title}\n\n{to_markdown(units)}")
    Path(path).write_text(document.page(title, text), encoding="utf-8")


def write_lines(path: Path | str, rows: Rows) -> None:
    """Write errors as JSON lines, one object for each kind of product and step; infinite ratios are ``null``."""
    text = (json.dumps({**row, "sqnr_db": row["sqnr_db"] if row["noise"] else None}) for row in rows)
    Path(path).write_text("".join(f"{line}\n" for line in text), encoding="utf-8")


def log_scalars(writer: Any, rows: Rows, *, prefix: str = "") -> None:
    """Add ratios and lost shares of each kind and step to a ``SummaryWriter`` of TensorBoard, or the like."""
    for row in rows:
        parts = prefix, row["layer"], row["operator"], row["direction"], f"{row['k']}x{row['n']}"
        name = "/".join(filter(None, parts))
        if row["noise"]:
            writer.add_scalar(f"sqnr_db/{name}", row["sqnr_db"], row["step"])
        lost = row["lost"] / row["operands"] if row["operands"] else 0.0
        writer.add_scalar(f"lost/{name}", lost, row["step"])


def _together(rows: Rows, names: Sequence[str]) -> dict[tuple[Any, ...], Errors]:
    sums: dict[tuple[Any, ...], Errors] = {}
    for row in rows:
        kind = tuple(row[name] for name in names)
        sums[kind] = sums.get(kind, Errors()) + Errors(**{field.name: row[field.name] for field in fields(Errors)})
    return sums
