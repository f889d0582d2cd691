"""The page: one file with everything in it."""

import base64
import json
import zlib
from collections.abc import Sequence
from html import escape
from itertools import product
from typing import Any

import numpy as np

from openmxu.runtime.native import resource
from openmxu.spec.passes import PASSES, Part
from openmxu.spec.stages import STAGES
from openmxu_sim.engines.compiled.trace import STREAMS
from openmxu_sim.operands.stimulus import Stalls
from openmxu_sim.wave.activity import Activity
from openmxu_sim.wave.page.c_text import MOST_SIDE, SIZES, page_config
from openmxu_sim.wave.page.layout import frame_layout
from openmxu_sim.wave.page.machine import Given, Record, fetch_text
from openmxu_sim.wave.page.machine import record as record_here
from openmxu_sim.wave.page.wasm import build_wasm
from openmxu_sim.wave.picture import array_words

SEEDS = range(1, 8)
"""Seeds of the stalls that a page offers."""

_BOTH = ("numbers", "unit", "scene", "model", "inspector", "presets", "page")
_SCRIPTS = {"live": (*_BOTH, "start")} | {body: (*_BOTH, body, "start") for body in ("heat", "watched")}


def live_page(
    given: Given | Record,
    *,
    live: bool = True,
    stages: Sequence[int] = STAGES,
    terms: Sequence[int] = (1, 4),
    made_by: str = "",
) -> str:
    """Return a page in which units of 1x1 to 8x8 run, as HTML; it begins with a run that is also recorded in it."""
    record = record_here(given) if isinstance(given, Given) else given
    given = record.given
    offered = product({*terms, given.terms}, {*stages, given.stages}) if live else [(given.terms, given.stages)]
    texts = {(stages, terms): fetch_text(stages, terms) for terms, stages in sorted(offered)}
    seeds = [*SEEDS, *([] if given.stalls is None or given.stalls in SEEDS else [given.stalls])]
    data: dict[str, Any] = {
        "depth": page_config(1, 1, given.stages).depth,
        "most_side": MOST_SIDE,
        "sides": list(SIZES),
        "streams": STREAMS,
        "passes": PASSES,
        "parts": [part.name.lower() for part in Part],
        "layouts": {f"{s} {t}": frame_layout(text, s, t) for (s, t), text in texts.items()},
        "seeds": seeds,
        "recorded": _recorded(record, seeds),
    }
    if live:
        modules = {element: build_wasm(text) for element, text in texts.items()}
        patterns = b"".join(np.packbits(Stalls(seed).pattern).tobytes() for seed in seeds)
        data |= {
            "sizes": [[*element, len(module)] for element, module in modules.items()],
            "modules": packed(b"".join(modules.values())),
            "patterns": packed(patterns),
        }
    about = "A recorded run of the netlist of an open bf16 matrix unit, bit for bit and clock by clock."
    return document("live", "OpenMXU, live" if live else "OpenMXU, recorded", about, data, made_by)


def heat_page(activity: Activity, *, made_by: str = "") -> str:
    """Return a recorded run of a unit of any size as a heat map with a slider, as HTML."""
    config, tiles = activity.config, activity.tiles
    steps = np.diff(activity.starts, axis=-1, prepend=0).astype("<i2")
    flags = np.zeros(len(activity.streams), dtype=np.uint8)
    for bit, name in enumerate(f"{stream}__{end}" for stream in _ENDS for end in ("valid", "ready")):
        flags |= activity.stream(name).astype(np.uint8) << bit
    m, n = (max(getattr(tile, side).stop for tile in tiles) for side in ("activations", "columns"))
    heat = {
        **{name: getattr(config, name) for name in ("rows", "columns", "stages", "terms")},
        "m": m,
        "k": max(tile.inner.stop for tile in tiles),
        "n": n,
        "cycles": activity.cycles,
        "utilisation": activity.utilisation,
        "tiles": [
            {
                "rows": len(tile.activations),
                "inners": len(tile.inner),
                "columns": len(tile.columns),
                "keep": tile.keep,
                "emit": tile.emit,
            }
            for tile in tiles
        ],
        "beats": [beats.tolist() for beats in activity.beats],
        "record": packed(steps.tobytes() + flags.tobytes()),
    }
    begin = int(activity.starts[0].max() + activity.starts[-1].min()) // 2
    title = f"OpenMXU, {config.rows}×{config.columns}"
    elements, does = array_words(config)
    about = f"A recorded run of {elements}, each a dot in the colour of its tile. {does}".strip()
    return document("heat", title, about, {"heat": heat, "begin": begin}, made_by)


_ENDS = ("weights", "activations", "results")


def _recorded(record: Record, seeds: list[int]) -> dict[str, Any]:
    """Return a record as the page reads it: each frame but the first as the difference to the one before."""
    inputs, frames = record.given, record.frames.copy()
    frames[1:] ^= record.frames[:-1]
    (m, k), n = inputs.a.shape, inputs.b.shape[1]
    return {
        **{name: getattr(inputs, name) for name in ("rows", "columns", "stages", "terms", "precision")},
        "stalls": 0 if inputs.stalls is None else seeds.index(inputs.stalls) + 1,
        "m": m,
        "k": k,
        "n": n,
        "a": inputs.a.ravel().tolist(),
        "b": inputs.b.ravel().tolist(),
        "golden": inputs.golden.ravel().tolist(),
        "tiles": record.tiles.tolist(),
        "cycles": record.cycles,
        "frames": packed(frames.astype("<u4").tobytes()),
    }


def packed(content: bytes) -> str:
    """Return bytes as a page reads them by ``inflate``."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def document(body: str, title: str, about: str, data: dict[str, Any], made_by: str) -> str:
    """Return the file, of template, style, script and data. The page calls itself recorded until it runs."""
    parts = {
        "title": escape(title),
        "kind": "recorded",
        "about": escape(about),
        "made_by": escape(made_by or "OpenMXU"),
        "style": _file("sheets/page.css"),
        "body": body,
        "content": _file(f"sheets/{body}.html"),
        "data": json.dumps(data, separators=(",", ":")).replace("</", "<\\/"),
        "script": "\n".join(_file(f"scripts/{name}.js") for name in _SCRIPTS[body]),
    }
    text = _file("sheets/page.html")
    for name, part in parts.items():
        text = text.replace("{{" + name + "}}", part)
    return text


def page_files(body: str) -> list[str]:
    """Return the texts of a page's template, style and scripts."""
    names = ["sheets/page.html", "sheets/page.css", f"sheets/{body}.html"]
    return [_file(name) for name in (*names, *(f"scripts/{name}.js" for name in _SCRIPTS[body]))]


def _file(name: str) -> str:
    return resource("openmxu_sim.wave.page", name)
