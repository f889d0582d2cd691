"""Energies of elements and parts: formats, terms and operands beside each other, and published figures."""

from collections.abc import Iterable, Mapping, Sequence

from openmxu.area.finding.findings import BASE, Report
from openmxu.area.run.energy import LAYER, NORMAL, OPERANDS, RANDOM, Energy
from openmxu.area.subject.points import ADDER, MULTIPLIER, PROCESSING_ELEMENT
from openmxu.pages.tables import Table, counted

_PUBLISHED = {MULTIPLIER: (1.1, 3.7), ADDER: (0.4, 0.9)}
"""pJ of units of fp16 and fp32 at 45 nm: Horowitz, ISSCC 2014."""

_KEYS = ("library", "recipe")


def _place(energy: Energy, *more: str) -> tuple[str, ...]:
    return (energy.target.name, energy.target.recipe, *more)


def by_format(report: Report) -> Table:
    """Elements of one stage relative to bf16; two operations a cycle."""
    elements: dict[tuple[str, ...], dict[str, Energy]] = {}
    for energy in report.played(PROCESSING_ELEMENT, NORMAL, stages=1):
        elements.setdefault(_place(energy), {})[energy.format] = energy
    names = [name for name in dict.fromkeys(name for row in elements.values() for name in row) if name != BASE]
    rows = [
        [
            *place,
            f"{base.total:.1f} ± {base.spread:.1%}",
            f"{2000 / base.total:.0f}",
            *[f"{row[name].total / base.total:.2f}" if name in row else "-" for name in names],
        ]
        for place, row in elements.items()
        if (base := row.get(BASE))
    ]
    return Table([*_KEYS, "bf16, pJ", "GFLOP/s/W", *names], rows, words=2)


def by_terms(report: Report) -> Table:
    """Energies for each multiply-add of elements by their terms; in brackets relative to one term."""
    elements: dict[tuple[str, ...], dict[int, float]] = {}
    for energy in report.played(operands=NORMAL):
        if energy.point.is_element:
            key = _place(energy, energy.format, str(energy.point.options["stages"]))
            elements.setdefault(key, {})[energy.point.terms] = energy.multiply_add
    counts = sorted({terms for row in elements.values() for terms in row})

    def cell(row: Mapping[int, float], terms: int) -> str:
        beside = f" ({row[terms] / row[1]:.2f})" if terms > 1 and 1 in row else ""
        return f"{row[terms]:.2f}{beside}"

    rows = [
        [*key, *[cell(row, terms) if terms in row else "-" for terms in counts]]
        for key, row in elements.items()
        if max(row) > 1
    ]
    return Table([*_KEYS, "format", "stages", *[f"pJ, {counted(terms, 'term')}" for terms in counts]], rows, words=3)


def by_operands(report: Report) -> Table:
    """Energies for each multiply-add of elements of one stage."""
    groups: dict[tuple[str, ...], dict[str, float]] = {}
    for energy in report.played(stages=1):
        if energy.point.is_element:
            name = f"{energy.format}{f', {energy.point.terms} terms' * (energy.point.terms > 1)}"
            groups.setdefault(_place(energy, name), {})[energy.operands] = energy.multiply_add
    kinds = [*OPERANDS, *([LAYER] if any(LAYER in row for row in groups.values()) else [])]
    rows = [
        [*key, *[f"{row[name]:.2f}" if name in row else "-" for name in kinds]]
        for key, row in groups.items()
        if len(row) > 1
    ]
    return Table([*_KEYS, "format", *kinds], rows, words=3)


def operands(report: Report) -> Table:
    """The operands in words; a user's layer by the name of its file."""
    kinds = {**OPERANDS, LAYER: f"activations and weights of the layer in {report.layer}"}
    there = {energy.operands for energy in report.played()}
    rows = [[name, words] for name, words in kinds.items() if name in there]
    return Table(["operands", ""], rows if there - {NORMAL, RANDOM} else [], words=2)


def published(report: Report) -> Table:
    """fp32 relative to fp16, beside published figures; areas and supplies differ too much to compare pJ."""
    rows = []
    found = False
    for part, (half, single) in _PUBLISHED.items():
        totals: dict[tuple[str, ...], dict[str, float]] = {}
        for energy in report.played(part, stages=0):
            totals.setdefault(_place(energy), {})[energy.format] = energy.total
        places = {place: row for place, row in totals.items() if {"fp16", "fp32"} <= set(row)}
        found = found or bool(places)
        for place, row in (*places.items(), (("Horowitz, ISSCC 2014, 45 nm", "-"), {"fp16": half, "fp32": single})):
            digits = 2 if place in places else 1
            figures = [f"{row[name]:.{digits}f}" for name in ("fp16", "fp32")]
            rows.append([part, *place, *figures, f"{row['fp32'] / row['fp16']:.2f}"])
    return Table(["part", *_KEYS, "fp16, pJ", "fp32, pJ", "fp32 / fp16"], rows if found else [], words=3)


def details(report: Report) -> Table:
    """Every figure with normal operands, and its parts."""
    return _parts(report.played(operands=NORMAL))


def at_random(report: Report) -> Table:
    """Energies of a user's own designs, and of ours beside them."""
    return _parts(report.played(operands=RANDOM))


def failed(report: Report) -> Table:
    """The energies that were not measured."""
    rows = [[each.target.label, each.point.name, each.operands, each.error] for each in report.energies if each.error]
    return Table(["not measured", "design", "operands", "reason"], rows, words=4)


def _parts(energies: Iterable[Energy]) -> Table:
    headings = [*_KEYS, "design", "pJ", "±", "clock pins", "flip-flops", "gates", "each net once", "ns"]
    return Table(headings, [[*_place(energy, energy.point.name), *_figures(energy)] for energy in energies], words=3)


def _figures(energy: Energy) -> Sequence[str]:
    delay = energy.result.delay
    parts = (energy.clock, energy.flip_flops, energy.logic, energy.at_once)
    return [
        f"{energy.total:.2f}",
        f"{energy.spread:.1%}",
        *(f"{part:.2f}" for part in parts),
        "-" if delay is None else f"{delay:.2f}",
    ]
