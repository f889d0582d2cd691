"""The chapter of an area report on energies."""

from collections.abc import Mapping, Sequence

from openmxu.area.finding.findings import Report
from openmxu.area.run.energy import LAYER, NORMAL, OPERANDS, RANDOM, Energy
from openmxu.area.subject.points import ADDER, MULTIPLIER, PROCESSING_ELEMENT
from openmxu.pages.tables import escaped, table

_PUBLISHED = {MULTIPLIER: (1.1, 3.7), ADDER: (0.4, 0.9)}
"""pJ of units of fp16 and fp32 at 45 nm: Horowitz, ISSCC 2014."""


def energy_section(report: Report) -> list[str]:
    """Energies of elements and parts, and the effect of operands; empty if none was measured."""
    energies = [energy for energy in report.energies if not energy.error and energy.operands != RANDOM]
    if not report.energies:
        return []
    failed = [energy for energy in report.energies if energy.error]
    return [
        "Energy per cycle, in pJ. Every transition of the mapped netlist, glitches included, takes half of its load "
        "times the square of the supply voltage, and the cell's internal energy from the library. Delays are the "
        "library's; a gate suppresses pulses shorter than its delay. Every output of every cycle was compared with the "
        "golden model. Wires, clock tree and leakage are left out. The element is that of row 63 in a column of 128: "
        "its partial sums are those of the rows above, and weights for the rows below pass through. Operands are "
        f"{OPERANDS[NORMAL]} unless said otherwise. {_spreads(energies)}".strip(),
        *_ratios(energies),
        *_by_terms(energies),
        *_operands(energies, report.layer),
        *_published(energies),
        *_random(report.energies),
        *(
            f"- {energy.result.target.label}: {escaped(f'{energy.result.point.name}: {energy.error}')}"
            for energy in failed
        ),
    ]


def _spreads(energies: Sequence[Energy]) -> str:
    """The meaning of the ± of energies, and the largest of them."""
    if not energies:
        return ""
    first = energies[0]
    worst = max(energies, key=lambda energy: energy.spread)
    return (
        f"Each figure is the mean over {first.seeds} seeds of the operands, {first.cycles:,} cycles each; ± is their "
        f"standard deviation, at most {worst.spread:.1%} in {len(energies)} figures "
        f"({escaped(worst.result.point.name)} on {worst.result.target.label}, {worst.operands})."
    )


def energy_details(report: Report) -> list[str]:
    """Every figure with normal operands, and its parts; empty if there is none."""
    return _parts([energy for energy in report.energies if not energy.error])


def _first(energies: Sequence[Energy]) -> dict[tuple[str, str], dict[str, Energy]]:
    """Elements of one stage with normal operands: by library and recipe, then format."""
    elements: dict[tuple[str, str], dict[str, Energy]] = {}
    for energy in energies:
        point, target = energy.result.point, energy.result.target
        is_element = point.part == PROCESSING_ELEMENT and point.options["stages"] == 1
        if is_element and energy.operands == NORMAL and not energy.error:
            elements.setdefault((target.name, target.recipe), {})[str(point.format)] = energy
    return elements


def _ratios(energies: Sequence[Energy]) -> list[str]:
    """Formats beside each other: energy, and operations per joule."""
    elements = _first(energies)
    names = list(dict.fromkeys(name for by_format in elements.values() for name in by_format if name != "bf16"))
    rows = [
        [
            library,
            recipe,
            f"{base.total:.1f} ± {base.spread:.1%}",
            f"{2000 / base.total:.0f}",
            *[f"{by_format[name].total / base.total:.2f}" if name in by_format else "-" for name in names],
        ]
        for (library, recipe), by_format in elements.items()
        if (base := by_format.get("bf16"))
    ]
    if not rows:
        return []
    return [
        "Elements of one stage, relative to bf16. GFLOP/s/W is derived: two operations a cycle, by an element that is "
        "always busy, with nothing around it.",
        table(["library", "recipe", "bf16, pJ", "GFLOP/s/W", *names], rows, words=2),
    ]


def _by_terms(energies: Sequence[Energy]) -> list[str]:
    """Elements by their terms, with normal operands; empty without any of several terms."""
    elements: dict[tuple[str, str, str, str], dict[int, float]] = {}
    for energy in energies:
        point, target = energy.result.point, energy.result.target
        if point.is_element and energy.operands == NORMAL:
            key = (target.name, target.recipe, str(point.format), str(point.options["stages"]))
            elements.setdefault(key, {})[point.terms] = energy.multiply_add
    counts = sorted({terms for by_terms in elements.values() for terms in by_terms})
    rows = [
        [*key, *[f"{by_terms[terms]:.2f}{_beside(by_terms, terms)}" if terms in by_terms else "-" for terms in counts]]
        for key, by_terms in elements.items()
        if max(by_terms) > 1
    ]
    if not rows:
        return []
    return [
        "pJ for each multiply-add: the energy of an element for a cycle, divided by the terms that it adds in it; in "
        "brackets relative to one term. Elements of N terms have N rows of the same column, row 63 among them, and "
        "play as many beats. The clock is the same: once all nets have settled a longer cycle takes nothing more.",
        table(["library", "recipe", "format", "stages", *[f"terms {terms}" for terms in counts]], rows, words=3),
    ]


def _beside(by_terms: Mapping[int, float], terms: int) -> str:
    """An energy relative to that of one term, in brackets."""
    return f" ({by_terms[terms] / by_terms[1]:.2f})" if terms > 1 and 1 in by_terms else ""


def _parts(energies: Sequence[Energy]) -> list[str]:
    """Every figure with normal operands, and its parts."""
    rows = [_row(energy) for energy in energies if energy.operands == NORMAL]
    if not rows:
        return []
    return [
        "pJ per cycle, with normal operands. 'Each net once' is the energy of the same cycles if each net changed at "
        "most once in each, as in a simulation without delays.",
        table(_HEADINGS, rows, words=3),
    ]


_HEADINGS = ["library", "recipe", "design", "pJ", "±", "clock pins", "flip-flops", "gates", "each net once", "ns"]


def _row(energy: Energy) -> list[str]:
    """A figure and its parts."""
    return [
        energy.result.target.name,
        energy.result.target.recipe,
        energy.result.point.name,
        f"{energy.total:.2f}",
        f"{energy.spread:.1%}",
        f"{energy.clock:.2f}",
        f"{energy.flip_flops:.2f}",
        f"{energy.logic:.2f}",
        f"{energy.at_once:.2f}",
        "-" if energy.result.delay is None else f"{energy.result.delay:.2f}",
    ]


def _random(energies: Sequence[Energy]) -> list[str]:
    """Energies of a user's own designs, and of ours beside them."""
    rows = [_row(energy) for energy in energies if energy.operands == RANDOM and not energy.error]
    if not rows:
        return []
    return [
        "Your designs, and ours beside them, with random inputs, as the meaning of your ports is not known: every bit "
        "of every input but the clock is drawn anew each cycle. Resets (inputs with names like rst, reset_i or rst_ni) "
        "are held inactive. Random operands have exponents that are far apart, so compare these figures with each "
        "other only, not with those above. Outputs were compared with a simulation of the same cells without delays.",
        table(_HEADINGS, rows, words=3),
    ]


def _operands(energies: Sequence[Energy], layer: str) -> list[str]:
    """Energies of elements of one stage with other operands; those of a user's layer by its name."""
    groups: dict[tuple[str, str, str], dict[str, float]] = {}
    for energy in energies:
        point, target = energy.result.point, energy.result.target
        if point.is_element and point.options["stages"] == 1:
            name = f"{point.format}{f', {point.terms} terms' * (point.terms > 1)}"
            groups.setdefault((target.name, target.recipe, name), {})[energy.operands] = energy.multiply_add
    kinds = {**OPERANDS, LAYER: f"activations and weights of the layer in {escaped(layer)}"}
    kinds = {
        name: words for name, words in kinds.items() if name in OPERANDS or any(name in row for row in groups.values())
    }
    rows = [
        [*key, *[f"{row[name]:.2f}" if name in row else "-" for name in kinds]]
        for key, row in groups.items()
        if len(row) > 1
    ]
    if not rows:
        return []
    lines = "\n".join(f"- {name}: {words}" for name, words in kinds.items())
    return [
        "Elements of one stage with other operands, in pJ for each multiply-add. Those of several terms have rows "
        "beside 63: other pixels of digits.",
        lines,
        table(["library", "recipe", "format", *kinds], rows, words=3),
    ]


def _published(energies: Sequence[Energy]) -> list[str]:
    """fp32 relative to fp16, beside published figures; areas and supplies differ too much to compare pJ."""
    rows = []
    for part, (half, single) in _PUBLISHED.items():
        totals: dict[tuple[str, str], dict[str, float]] = {}
        for energy in energies:
            point, target = energy.result.point, energy.result.target
            if point.part == part and point.options["stages"] == 0:
                totals.setdefault((target.name, target.recipe), {})[str(point.format)] = energy.total
        rows += [
            [part, *key, f"{row['fp16']:.2f}", f"{row['fp32']:.2f}", f"{row['fp32'] / row['fp16']:.2f}"]
            for key, row in totals.items()
            if {"fp16", "fp32"} <= set(row)
        ]
        rows.append([part, "Horowitz, ISSCC 2014, 45 nm", "-", f"{half}", f"{single}", f"{single / half:.2f}"])
    if len(rows) <= len(_PUBLISHED):
        return []
    return [
        "Multipliers and adders beside published figures for other gates, supply voltages and operands: compare the "
        "ratios, not the pJ.",
        table(["part", "where", "recipe", "fp16, pJ", "fp32, pJ", "fp32 / fp16"], rows, words=3),
    ]
