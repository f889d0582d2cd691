"""Layout of a frame, in which ``page.c`` records a cycle."""

from typing import Any

from openmxu_sim.engines.compiled.trace import STREAMS
from openmxu_sim.engines.protocol import Counters
from openmxu_sim.wave.page.c_text import SIZES, page_config, page_rows, register_names

_READ = ("activations", "swap", "loaded", "place", "held")
"""Registers of admission that a page reads."""


def frame_layout(text: str, stages: int, terms: int = 1) -> dict[str, Any]:
    """Return the first word of each part of a frame, and of the registers in it, as plain data."""
    registers = register_names(text)
    admission = {rows: _places(registers[f"admission_{rows}"]) for rows in page_rows(terms)}
    unit = _places(registers["unit"])
    most = SIZES[-1]
    sizes = {
        "streams": len(STREAMS),
        "counters": len(Counters._fields),
        "activations": most,
        "weights": most,
        "results": most,
        "admission": max(map(_limbs, admission.values())),
        "bank": most,
        "cells": 0,
    }
    offsets, start = {}, 0
    for name, size in sizes.items():
        offsets[name] = start
        start += size
    config = page_config(terms, 1, stages, terms)
    return offsets | {
        "limbs": _limbs(unit),
        "names": {
            "unit": unit,
            "admission": {rows: {name: places[name] for name in _READ} for rows, places in admission.items()},
        },
        "row_step": config.row_step,
        "write_delay": 2 + config.array_latency + config.write_latency,
    }


def frame_words(layout: dict[str, Any], rows: int, columns: int) -> int:
    """Return the number of words of a frame that a unit with so many rows of elements, and columns, fills."""
    return int(layout["cells"] + rows * columns * layout["limbs"])


def _places(registers: list[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    places, start = {}, 0
    for name, width in registers:
        places[name] = start, width
        start += -(-width // 32)
    return places


def _limbs(places: dict[str, tuple[int, int]]) -> int:
    return sum(-(-width // 32) for _, width in places.values())
