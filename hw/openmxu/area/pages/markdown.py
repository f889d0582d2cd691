"""Area reports for people: tables, plots, and the notes without which they would be misread."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from openmxu.area.chapters import claims, clocks, derived, design_tables, energies, features, quantities
from openmxu.area.finding.findings import Report
from openmxu.pages.tables import Table, escaped, fenced

NOTES = {
    "own": "The function of your design and its number of cycles are not checked; all rows of a target are mapped by "
    "one recipe, and areas on gates exclude memories.",
    "short": "Ranges span all targets, libraries or clocks; ± is the standard deviation over orders of ABC's inputs, "
    "of energies over seeds of the operands; wires, clock trees, memories and leakage are in no figure.",
    "claims": "A verdict is about the median over the targets: at least the claim, up to 10 % below it, or less.",
    "growth": "Brackets hold 95 % intervals by Student's t, which say how well a + b·p + c·p² or a power of p fits.",
    "standing": "Areas per multiply-add by one recipe, relative to bf16's element of as many terms; what scales and "
    "conversion cost around the array is not included.",
    "costs": "Change of area without the feature; NaN, infinities, rounding and exponents are taken out by holding "
    "wires of the design at a value.",
    "clock": "At each delay stands the best element of all stages and recipes, between two elements a straight line on "
    "logarithmic axes.",
    "energy": "pJ per cycle, glitches included; every output was compared with the golden model, or with random inputs "
    "with the same cells without delays.",
    "derived": "Derived: fp32 products by passes of bf16 (3 give about 16 bits, 6 and 9 nearly fp32's), bf16 results, "
    "whole units and arrays are computed from the figures above, without splitters and streams.",
    "repeat": "`openmxu area --explain FIGURE -o DIR` shows the script, the inputs and the tools of a figure.",
}
"""The sentences of a report, by chapter; each is shown where its chapter has a table."""


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


class _Chapter(NamedTuple):
    title: str
    tables: Sequence[Table]
    note: str = ""
    """A key of :data:`NOTES`."""
    plots: Mapping[str, str] = {}
    """Texts in place of the plots, by file."""


def to_markdown(report: Report, plots: Collection[str] = ()) -> str:
    """The whole report; ``plots`` names the files that there are."""
    own = design_tables.own_designs(report)
    title = f"Area of {escaped(', '.join(own))}, beside ours" if own else "Areas of number formats"
    scripts = [f"{target.label}:\n\n{fenced(target.script.format(top='TOP', change=''))}" for target in report.targets]
    return _document(title, [*_opening(report), *_designs(report)], report, plots) + "\n".join(
        [*_failures(report), "## Scripts\n", *scripts, ""]
    )


def to_summary(report: Report, plots: Collection[str] = ()) -> str:
    """The headline page: all chapters but those that name each design."""
    return _document("Measured areas and energies", _opening(report), report, plots)


def _document(title: str, chapters: Sequence[_Chapter], report: Report, plots: Collection[str]) -> str:
    """The chapters that have a table, and what they were measured with."""
    blocks = [f"# {title}"]
    for chapter in chapters:
        first, *others = [str(table) for table in chapter.tables if table] or [""]
        shown = [f"![{words}]({name})" for name, words in chapter.plots.items() if name in plots]
        if first or shown:
            note = [NOTES[chapter.note]] if chapter.note else []
            blocks += [f"## {chapter.title}", *filter(None, [first]), *note, *shown, *others]
    failed = [f"{len(report.failed)} of {len(report.runs)} runs failed."] if report.failed else []
    tools = f"OpenMXU {report.made_by}, {report.tool}." if report.made_by else f"{report.tool}."
    origin = ["## What was measured", tools, *failed]
    origin += [str(design_tables.conditions(report)), str(_GLOSSARY)]
    return "\n\n".join([*blocks, *origin, *_citation(report)]) + "\n"


def _opening(report: Report) -> list[_Chapter]:
    areas, played = report.fronts, report.energy_fronts
    return [
        _Chapter("Your design beside ours", [design_tables.own(report)], "own"),
        _Chapter(
            "In short",
            [quantities.in_short(report)],
            "short",
            {
                "area.svg": "Area against significand width, and ratios beside the claims",
                "headline.svg": "Cost relative to bf16, beside the claims",
            },
        ),
        _Chapter("The claims", [claims.verdicts(report), claims.ratios(report)], "claims"),
        _Chapter("Growth with the significand width", [claims.growth(report)], "growth"),
        _Chapter("Where bf16 stands", [features.standing(report)], "standing"),
        _Chapter(
            "What a feature costs", [features.costs(report)], "costs", {"costs.svg": "What leaving features out saves"}
        ),
        _Chapter(
            "At the same clock",
            [clocks.at_a_clock(areas, "GE"), clocks.at_a_clock(played, "pJ"), *clocks.all_elements(areas, played)],
            "clock",
            {
                "clock.svg": "Area of processing elements against their delay",
                "energy.svg": "Energy of processing elements against their delay",
            },
        ),
        _Chapter(
            "Energy",
            [
                energies.by_format(report),
                energies.by_terms(report),
                energies.by_operands(report),
                energies.operands(report),
                energies.published(report),
                energies.at_random(report),
                energies.failed(report),
            ],
            "energy",
        ),
        _Chapter(
            "Derived figures",
            [derived.units(report), derived.passes(report), derived.results(report), derived.arrays(report)],
            "derived",
        ),
        _Chapter("Published by others", [claims.published()] if report.ratios else []),
    ]


def _designs(report: Report) -> list[_Chapter]:
    return [
        _Chapter("Areas", [design_tables.areas(report), design_tables.library_areas(report)]),
        _Chapter("Depth and delay", [design_tables.depths(report), design_tables.delays(report)]),
        _Chapter("Energies of all designs", [energies.details(report)]),
        _Chapter("The catalog's designs", [design_tables.catalog(report), design_tables.derivations(report)]),
    ]


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
    return ["## To cite", bibtex, NOTES["repeat"]]


def _failures(report: Report) -> list[str]:
    failures = [
        f"Failed: {escaped(result.point.name)} on {result.target.label}:\n\n{fenced(result.error)}\n"
        for result in report.failed
    ]
    return ["\n## What failed\n", *failures] if failures else [""]
