"""The comment at the top of an exported file: who wrote it, how to write it again, and which design it is."""

import dataclasses
import textwrap
from typing import Any

from openmxu.runtime.extras import release

_WIDTH = 112

_FIGURES = {"latency": ("Latency", "cycle"), "shortest_tile": ("Shortest tile", "beat")}
"""Properties that describe a design's timing, with their nouns and units in the comment."""


def check_command(command: str) -> str:
    """Return ``command`` if it can stand in a comment."""
    if not command.isprintable() or "/*" in command or "*/" in command:
        raise ValueError(f"command must be one printable line without '/*' and '*/', not {command!r}")
    return command


def header(component: Any, name: str, command: str, waivers: dict[str, str]) -> str:
    """A comment in Verilog for a reader who has only the file: version, command, configuration, timing, waivers.

    A release always writes the same comment: it has no date and no path.
    """
    paragraphs = [
        [f"Written by OpenMXU {release()}. Licensed under the Apache License, Version 2.0."],
        [command],
        _describe(component, name),
        [
            "Verilator -Wall has nothing to say but this, which is switched off up to the end of this file:",
            *(f"- {warning}. {reason}" for warning, reason in waivers.items()),
        ],
    ]
    return "/* " + "\n\n   ".join("\n   ".join(lines) for lines in paragraphs if any(lines)) + " */\n"


def _describe(component: Any, name: str) -> list[str]:
    """Configuration, latency and shortest tile, where the component has them."""
    lines = []
    if dataclasses.is_dataclass(config := getattr(component, "config", None)):
        values = ((field.name, getattr(config, field.name)) for field in dataclasses.fields(config))
        words = ", ".join(f"{noun} {value}" for noun, value in values if value is not None)
        lines += textwrap.wrap(f"{name}: {words}.", _WIDTH)
    figures = ((*words, getattr(component, figure, None)) for figure, words in _FIGURES.items())
    sentences = [f"{noun}: {count} {unit}{'s' * (count != 1)}." for noun, unit, count in figures if count is not None]
    return [*lines, *([" ".join(sentences)] if sentences else [])]
