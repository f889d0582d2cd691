"""The changes between two area reports."""

from collections.abc import Iterator, Mapping
from typing import Any

_UNITS = {"flip_flops": "", "memory_bits": "", "depth": "", "delay_ns": " ns", "energy": " pJ"}
"""Figures that are compared beside the area, and their units."""


def to_text(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The changes in lines, the tool's first. Targets that only one of the reports has are left out."""
    lines = [] if old["tool"] == new["tool"] else [f"tool: {old['tool']} -> {new['tool']}"]
    before, now = dict(_figures(old)), dict(_figures(new))
    targets = {name[-2:] for name in before} & {name[-2:] for name in now}
    for name in dict.fromkeys([*before, *now]):
        if name[-2:] in targets:
            words = f"{' '.join(name[:-2])}, {name[-2]}, {name[-1]}"
            lines += [f"{words}: {change}" for change in _changes(before.get(name), now.get(name))]
    return "\n".join(lines) or "nothing has moved"


def _changes(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Iterator[str]:
    """Figures of one result that differ."""
    if old is None or new is None:
        yield "new" if old is None else "gone"
        return
    for figure, unit in (("area", f" {new['unit']}"), *_UNITS.items()):
        before, now = old.get(figure), new.get(figure)
        if before != now:
            words = " -> ".join("failed" if value is None else f"{value:,g}" for value in (before, now))
            moved = f" ({now / before - 1:+.2%})" if before and now is not None else ""
            yield f"{figure.removesuffix('_ns')} {words}{unit}{moved}"


def _figures(report: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Each result, design of the catalog and energy, by its name, its target and its recipe."""
    for result in report["results"]:
        options = [f"{name}={value}" for name, value in sorted(result["options"].items())]
        yield (result["top"], *options, result["target"], str(result["recipe"])), result
    for entry in report["catalog"]:
        yield (entry["design"], entry["target"], str(entry["recipe"])), entry
    for energy in report.get("energies", ()):
        words = (energy["name"], f"with operands {energy['operands']}", energy["target"], str(energy["recipe"]))
        yield words, {"unit": "pJ", "energy": energy["total"]}
