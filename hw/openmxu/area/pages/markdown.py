"""Area reports for people: tables, plots, and the notes without which they would be misread."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from openmxu.area.chapters import claims, clocks, derived, design_tables, energy_tables, features, quantities
from openmxu.area.finding.findings import Report
from openmxu.pages.tables import Table, escaped, fenced

NOTES = {
    "Your design beside ours": "The function of your design and its number of cycles are not checked; all rows of a "
    "target are mapped by one recipe, and areas on gates exclude memories.",
    "In short": "Ranges span all targets, libraries or clocks; ± is the standard deviation over orders of ABC's "
    "inputs, of energies over seeds of the operands; wires, clock trees, memories and leakage are in no figure.",
    "The claims": "A verdict is about the median over the targets: at least the claim, up to 10 % below it, or less.",
    "Growth with the significand width": "Brackets hold 95 % intervals by Student's t, which say how well a + b·p + "
    "c·p² or a power of p fits.",
    "Where bf16 stands": "Areas per multiply-add by one recipe, relative to bf16's element of as many terms; what "
    "scales and conversion cost around the array is not included.",
    "What a feature costs": "Change of area without the feature; NaN, infinities, rounding and exponents are taken "
    "out by holding wires of the design at a value.",
    "At the same clock": "At each delay stands the best element of all stages and recipes, between two elements a "
    "straight line on logarithmic axes.",
    "Energy": "pJ per cycle, glitches included; every output was compared with the golden model, or with random "
    "inputs with the same cells without delays.",
    "Derived figures": "Derived: fp32 products by passes of bf16 (3 give about 16 bits, 6 and 9 nearly fp32's), bf16 "
    "results, whole units and arrays are computed from the figures above, without splitters and streams.",
    "To cite": "`openmxu area --explain FIGURE -o DIR` shows the script, the inputs and the tools of a figure.",
}
"""The sentences of a report, by chapter; each is shown where its chapter has a table."""

_OPENING: Mapping[str, Sequence[Callable[[Report], Table]]] = {
    "Your design beside ours": [design_tables.own],
    "In short": [quantities.in_short],
    "The claims": [claims.verdicts, claims.ratios],
    "Growth with the significand width": [claims.growth],
    "Where bf16 stands": [features.standing],
    "What a feature costs": [features.costs],
    "At the same clock": [clocks.areas, clocks.energies, clocks.small_elements, clocks.efficient_elements],
    "Energy": [
        *(
            energy_tables.by_format,
            energy_tables.by_terms,
            energy_tables.by_operands,
            energy_tables.operands,
            energy_tables.published,
        ),
        *(energy_tables.at_random, energy_tables.failed),
    ],
    "Derived figures": [derived.units, derived.passes, derived.results, derived.arrays],
}
_DESIGNS: Mapping[str, Sequence[Callable[[Report], Table]]] = {
    "Areas": [design_tables.areas, design_tables.library_areas],
    "Depth and delay": [design_tables.depths, design_tables.delays],
    "Energies of all designs": [energy_tables.details],
    "The catalog's designs": [design_tables.catalog, design_tables.derivations],
}
"""The chapters, each with its tables."""

_PLOTS = {
    "In short": {
        "area.svg": "Area against significand width, and ratios beside the claims",
        "headline.svg": "Cost relative to bf16, beside the claims",
    },
    "What a feature costs": {"costs.svg": "What leaving features out saves"},
    "At the same clock": {
        "clock.svg": "Area of processing elements against their delay",
        "energy.svg": "Energy of processing elements against their delay",
    },
}
"""Texts in place of the plots, by chapter and file."""


_GLOSSARY = Table(
    ["word", "meaning"],
    [
        ["GE", "area in NAND2 of the library, flip-flops included; of generic gates, static CMOS transistors / 4"],
        [
            "LUTs",
            "no wide multiplexers; a CCU2C counts two, a Gowin ALU one, an SB_CARRY or CARRY4 none; DSP blocks apart",
        ],
        ["eXfY", "a format of X exponent and Y fraction bits"],
        ["ieee", "gradual underflow; all other designs flush subnormals"],
        ["stages", "pipeline stages: one in processing elements, none in other parts, unless a name says otherwise"],
        ["depth", "cells on the longest path between ports, flip-flops, memories and modules that are mapped once"],
        ["derived", "the sum of parts measured at their real size; a test compares it with units measured whole"],
    ],
    words=2,
)


def to_markdown(report: Report, plots: Collection[str] = ()) -> str:
    """The whole report; ``plots`` names the files that there are."""
    own = design_tables.own_designs(report)
    title = f"Area of {escaped(', '.join(own))}, beside ours" if own else "Areas of number formats"
    scripts = [f"{target.label}:\n\n{fenced(target.script.format(top='TOP', change=''))}" for target in report.targets]
    return _document(title, [*_OPENING, *_DESIGNS], report, plots) + "\n".join(
        [*_failures(report), "## Scripts\n", *scripts, ""]
    )


def to_summary(report: Report, plots: Collection[str] = ()) -> str:
    """The headline page: all chapters but those that name each design."""
    return _document("Measured areas and energies", _OPENING, report, plots)


def _document(title: str, chapters: Iterable[str], report: Report, plots: Collection[str]) -> str:
    """The chapters that have a table, and what they were measured with."""
    blocks = [f"# {title}"]
    for chapter in chapters:
        first, *others = [str(table) for make in {**_OPENING, **_DESIGNS}[chapter] if (table := make(report))] or [""]
        shown = [f"![{words}]({name})" for name, words in _PLOTS.get(chapter, {}).items() if name in plots]
        if first or shown:
            blocks += filter(None, [f"## {chapter}", first, NOTES.get(chapter), *shown, *others])
    failed = [f"{len(report.failed)} of {len(report.runs)} runs failed."] if report.failed else []
    tools = f"OpenMXU {report.made_by}, {report.tool}." if report.made_by else f"{report.tool}."
    blocks += ["## What was measured", tools, *failed, str(design_tables.conditions(report)), str(_GLOSSARY)]
    return "\n\n".join([*blocks, *_citation(report)]) + "\n"


def _citation(report: Report) -> list[str]:
    """A BibTeX entry that names all that the figures depend on; empty for a report that does not know its version."""
    if not report.made_by:
        return []
    libraries = {target.library.name: target.library.sha256 for target in report.targets if target.library}
    hashes = ", ".join(f"{name} {sha256[:12]}" for name, sha256 in libraries.items()).replace("_", r"\_")
    tools = "; ".join(dict.fromkeys([report.tool, *(target.timing for target in report.targets if target.timing)]))
    entry = {
        "title": "OpenMXU",
        "author": "{The OpenMXU authors}",
        "version": report.made_by,
        "note": f"Area report by {tools}" + (f"; SHA-256 of libraries: {hashes}" if hashes else ""),
    }
    lines = [f"  {name:<7} = {{{value}}}," for name, value in entry.items()]
    bibtex = "\n".join(["```bibtex", "@software{openmxu,", *lines, "}", "```"])
    return ["## To cite", bibtex, NOTES["To cite"]]


def _failures(report: Report) -> list[str]:
    failures = [
        f"Failed: {escaped(result.point.name)} on {result.target.label}:\n\n{fenced(result.error)}\n"
        for result in report.failed
    ]
    return ["\n## What failed\n", *failures] if failures else [""]
