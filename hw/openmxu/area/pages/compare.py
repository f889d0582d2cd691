"""The changes between two area reports."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_OTHERS = {
    "flip_flops": "",
    "memory_bits": "",
    "depth": "",
    "delay_ns": "ns",
    "energy": "pJ",
    "core_um2": "µm²",
    "wire_mm": "mm",
}
"""Figures that are compared beside the area, and their units."""


@dataclass(frozen=True)
class Change:
    """A figure that changed."""

    name: str
    """The design, its options where it has any, the target and the recipe."""
    figure: str
    """Its name: ``area``, ``flip_flops``, ``memory_bits``, ``depth``, ``delay``, ``energy``, ``core``, ``wire``; or
    ``""`` where the design is in one report only."""
    old: float | None
    new: float | None
    """The figure before and now; ``None`` where there is none."""
    unit: str = ""
    """Unit of an area or a delay."""

    def __str__(self) -> str:
        if not self.figure:
            return f"{self.name}: {'new' if self.old is None else 'gone'}"
        before, now = ("failed" if value is None else f"{value:,g}" for value in (self.old, self.new))
        moved = f" ({self.new / self.old - 1:+.2%})" if self.old and self.new is not None else ""
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.name}: {self.figure} {before} -> {now}{unit}{moved}"


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """The figures that differ between an old and a new report. Targets that only one of them has are left out."""
    before, now = dict(_figures(old)), dict(_figures(new))
    targets = {name[-2:] for name in before} & {name[-2:] for name in now}
    changed = []
    for name in dict.fromkeys([*before, *now]):
        if name[-2:] not in targets:
            continue
        words = " ".join(name[:-2]) + f", {name[-2]}, {name[-1]}"
        if name not in before or name not in now:
            there = before.get(name) or now.get(name) or {}
            present = there.get("area", there.get("energy", there.get("core_um2")))
            changed.append(Change(words, "", present if name in before else None, present if name in now else None))
            continue
        for figure, unit in (("area", now[name]["unit"]), *_OTHERS.items()):
            values = before[name].get(figure), now[name].get(figure)
            if values[0] != values[1]:
                changed.append(Change(words, figure.removesuffix("_ns"), *values, unit))
    return changed


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


def to_text(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The changes in lines, the tool's first."""
    lines = [] if old["tool"] == new["tool"] else [f"tool: {old['tool']} -> {new['tool']}"]
    lines += map(str, changes(old, new))
    return "\n".join(lines) or "nothing has moved"
