"""A layout's files: masks, netlist, wires, picture, and the report: a record, and the same as a page."""

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from openmxu.pages.document import page, render
from openmxu.pages.tables import table
from openmxu_layout.drawing.exchange import write_def, write_netlist
from openmxu_layout.drawing.layers import draw_layers
from openmxu_layout.drawing.picture import draw_picture
from openmxu_layout.flow.steps import Foundry, Layout, Outcome
from openmxu_layout.technology import Technology

_PICTURE = "layout.png"

_NOTES = """\
The layout is that of seed {seed}, whose longest path is the shortest: arrival ns, setup times included, and as bare ns
without wires. Inputs come, and outputs are taken, at the clock's edge at its pin. Hold ns: what is left of the shortest
path between registers. Inputs ns: for how long after that edge inputs must keep their value."""

_CLOCKS = """\
Delays are those of one clock with several ports, whose edges come together. Whether data may pass from one clock to
another is not checked."""

_NOT_CLAIMED = """\
Not signed off: no rules about antennas, no fill, pads, seal ring or drop of supply voltages, one corner, no crosstalk,
no recovery or removal of asynchronous resets.
Rules about densities are met once fill is put in, where blocks come together."""


def contents(outcome: Outcome, foundry: Foundry) -> Iterator[bytes]:
    """The content of each file, in the order of ``FILES`` of the command."""
    best, its, directions = outcome.best, foundry.technology, outcome.mapped.ports
    picture = draw_picture(best, its, foundry.cells, directions)
    record = to_record(outcome, foundry)
    text = to_markdown(record)
    yield outcome.masks
    yield write_def(best, its).encode()
    yield best.spef.encode()
    yield picture
    yield draw_layers(best, its, foundry.cells).encode()
    yield write_netlist(best.placed.name, directions, best.placed.nets, best.placed.masters).encode()
    yield f"{json.dumps(record, indent=1)}\n".encode()
    yield text.encode()
    yield to_html(text, picture).encode()


def to_record(outcome: Outcome, foundry: Foundry) -> dict[str, Any]:
    """All figures, with their units."""
    placed, request, checked = outcome.best.placed, outcome.request, outcome.checked
    cells = [master for master in placed.masters.values() if master not in foundry.technology.kit.fill]
    return {
        "design": outcome.source.name,
        "top": outcome.source.top,
        "clocks": ", ".join(outcome.clocks),
        "technology": foundry.name,
        "library": foundry.liberty.name,
        "tools": ", ".join(outcome.tools),
        "cells": len(cells),
        "buffers": len(cells) - len(outcome.mapped.instances),
        "cells_um2": round(sum(foundry.liberty.areas[master] for master in cells), 1),
        "width_um": placed.width / 1000,
        "height_um": placed.height / 1000,
        "core_um2": round(placed.width * placed.height / 1e6, 1),
        "utilisation": request.utilisation,
        "seed": outcome.best.seed,
        "seeds": [_figures(layout, foundry.technology, request.period) for layout in outcome.layouts],
        "checks": None if checked is None else {"passed": checked.passed, **asdict(checked)},
    }


def _figures(layout: Layout, technology: Technology, period: float | None) -> dict[str, int | float | None]:
    lengths = sum((route.lengths() for route in layout.routes.values()), Counter[int]())
    return {
        "seed": layout.seed,
        **{f"{metal.name}_mm": round(lengths[level] / 1e6, 3) for level, metal in enumerate(technology.metals)},
        "wires_mm": round(lengths.total() / 1e6, 3),
        "vias": sum(len(route.vias) for route in layout.routes.values()),
        "wires_pf": round(technology.farads(lengths) * 1e12, 3),
        **{f"{name}_ns": delay for name, delay in asdict(layout.timing).items()},
        "bare_ns": layout.bare.arrival,
        "slack_ns": None if period is None else round(period - layout.timing.arrival, 4),
    }


def to_markdown(record: Mapping[str, Any]) -> str:
    """The report."""
    facts = [(_words(name), _shown(value)) for name, value in record.items() if name not in ("seeds", "checks")]
    sections = [
        f"# Layout of {record['design']}",
        table(["", "figure"], facts),
        f"![cells and wires]({_PICTURE})",
        table([*map(_words, record["seeds"][0])], [[*map(_shown, seed.values())] for seed in record["seeds"]]),
        _NOTES.format(seed=record["seed"]),
        *([_CLOCKS] if "," in record["clocks"] else []),
        _found(record["checks"]) if record["checks"] else "No check was asked for.",
        _NOT_CLAIMED,
    ]
    return "\n\n".join(sections) + "\n"


def _words(name: str) -> str:
    return name.replace("_", " ").replace("um2", "µm²").replace("um", "µm").replace("pf", "pF")


def _shown(value: str | float | None) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int | float) else value


def _found(checks: Mapping[str, Any]) -> str:
    rows = []
    for deck, found in checks["rules"].items():
        broken = ", ".join(f"{name}: {number}" for name, number in found["counts"].items())
        kept = f"kept; densities: {sum(found['densities'].values())}"
        rows.append((f"design rules, {deck} deck ({found['rules']})", broken or kept))
    for name, text in (
        ("circuit", "transistors in the masks"),
        ("supplies", "rails, straps and stacks of vias in the masks"),
        ("netlist", "placed netlist, buffers apart"),
    ):
        wrong = checks[name]
        rows.append((text, f"{len(wrong)} differences, first: {wrong[0]}" if wrong else "match"))
    rows.append(("synthesised netlist", checks["proof"] or "proven equal to the design"))
    return table(["check", "result"], rows, words=2)


def to_html(markdown: str, picture: bytes) -> str:
    """The page, with the picture in it."""
    data = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    body = render(markdown).replace(f'src="{_PICTURE}"', f'src="{data}" style="max-width:100%"')
    return page(markdown.partition("\n")[0].removeprefix("# "), body)
