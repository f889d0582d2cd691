"""Area reports for people."""

from collections.abc import Callable, Sequence

from openmxu.synth.designs import DEVIATION, MEASURED_CELLS
from openmxu.synth.points import ADDER, MULTIPLIER, MULTIPLIER_TO_FP32, PRODUCT
from openmxu.synth.results import CLAIMS, Entry, Ratio, Report
from openmxu.synth.table import CATALOG_WORDS, catalog_table
from openmxu.synth.targets import RECIPES, Area

__all__ = ["to_markdown"]

_TOLERANCE = 0.1
"""How far a ratio may be from a claim, as a fraction of the claim, and still be said to agree."""

# Multipliers of others as they published them: source, conditions, areas in one unit.
_PUBLISHED = [
    ("Horowitz, ISSCC 2014", "45 nm, µm²", {"fp16": 1640, "fp32": 7700}),
    ("ninjakaib, hardware-accelerators", "Nangate45, µm²", {"fp8": 236, "bf16": 1103, "fp32": 6353}),
    ("Horus", "Sky130 HD, µm²", {"fp8_e4m3": 857, "bf16": 2740}),
]


def to_markdown(report: Report) -> str:
    """The report as Markdown: the figures, how they came about, and what they say of the claims."""
    sections = [
        "# Area of multipliers, adder, processing element and matrix units",
        "All figures were measured by the Yosys named below, but for those that are said to be derived and for one "
        "section that says otherwise. They are areas after mapping to cells, before placing and routing.",
        "## In short", *_conclusion(report),
        "## What was measured", _conditions(report),
        "## Areas", *_areas(report),
        "## Growth with the significand width", *_growth(report),
        "## The claims", *_claims(report),
        *_catalog(report),
        "## Published by others, not measured here", *_published(),
        *_failures(report),
        "## How to repeat a figure", *_scripts(report),
    ]
    return "\n\n".join(sections) + "\n"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """A Markdown table; all but the first ``words`` columns are numbers, set to the right."""
    lines = [headings, ["---" if i < words else "---:" for i in range(len(headings))], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _conclusion(report: Report) -> list[str]:
    """Sentences whose numbers and verdicts come from the measurements."""
    first = report.targets[0]
    lines = []
    for ratio in report.ratios:
        if ratio.target == first and ratio.others:
            found = [f"{value:.2f} times as large for {name} as for bf16 (claim: {CLAIMS[name]:.0f}; "
                     f"{_verdict(value, CLAIMS[name])})" for name, value in ratio.others.items()]
            lines.append(f"- On {first.label}, a {_words(ratio.part)} is {' and '.join(found)}.")
    for name, claim in CLAIMS.items():
        for part in (MULTIPLIER, PRODUCT):
            values = [ratio.others[name] for ratio in report.ratios if ratio.part == part and name in ratio.others]
            if len(values) > 1:
                near = sum(_agrees(value, claim) for value in values)
                lines.append(f"- {name} to bf16, {_words(part)}, all {len(values)} targets: {min(values):.2f} to "
                             f"{max(values):.2f}. Within {_TOLERANCE:.0%} of the claimed {claim:.0f}: {near}.")
    units = {words: area for words, part in (("fp32 adder", ADDER), ("bf16 multiplier to fp32", MULTIPLIER_TO_FP32))
             if (area := _area_of(report, part))}
    if len(units) == 2:
        smaller, larger = sorted(units, key=lambda unit: units[unit])
        lines.append(f"- On {first.label}, of the two operations of a processing element the {larger} is "
                     f"{units[larger] / units[smaller]:.2f} times as large as the {smaller}.")
    if report.failed:
        lines.append(f"- {len(report.failed)} of {len(report.runs)} runs failed; see below.")
    return ["\n".join(lines)] if lines else ["Too few designs were measured to say anything about the claims."]


def _words(part: str) -> str:
    return "complete multiplier" if part == MULTIPLIER else part


def _agrees(value: float, claim: float) -> bool:
    return abs(value / claim - 1) <= _TOLERANCE


def _verdict(value: float, claim: float) -> str:
    if _agrees(value, claim):
        return "agrees"
    return f"bf16 saves {'less' if value < claim else 'more'} than claimed"


def _area_of(report: Report, part: str) -> float | None:
    """The area of the only design of a kind, on the first target."""
    return next((result.area.area for result in report.results
                 if result.target == report.targets[0] and result.point.part == part and result.area), None)


def _conditions(report: Report) -> str:
    lines = [f"- Tool: {report.tool}. Another version gives other areas."]
    for target in report.targets:
        line = f"- {target.label}: {target.title}."
        if target.library:
            line += (f" Recipe '{target.recipe}': {RECIPES[target.recipe]}. 1 GE is the area of the library's "
                     f"smallest 2-input NAND: {target.library.nand2}, {target.library.nand2_area:g}. SHA-256 of "
                     f"the library: {target.library.sha256}.")
        lines.append(line)
    lines += [
        "- GE: combinational cells and flip-flops together; the CSV and JSON files have them apart. The areas of "
        "generic gates are numbers of transistors in static CMOS, divided by the 4 of a NAND2; they have no timing.",
        "- LUT4 on ECP5: LUT4 cells, and two for each carry cell (CCU2C); no wide multiplexers. LUT4 on iCE40: "
        "SB_LUT4 cells; an SB_CARRY shares the logic cell of the LUT that adds.",
        "- eXfY is the format with X exponent and Y fraction bits. Multipliers are combinational, take and give "
        "one format unless said otherwise, round to nearest, ties to even, handle NaN and infinity, and flush "
        "subnormals to zero. The processing element has one pipeline stage.",
    ]
    return "\n".join(lines)


def _areas(report: Report) -> list[str]:
    """All areas in comparable units; those on real libraries in the libraries' units, too."""
    headings = [f"{target.label} ({target.unit})" for target in report.targets]
    tables = [_area_table(report, headings, range(len(headings)), lambda area: area.area)]
    real = [i for i, target in enumerate(report.targets) if target.library and target.library.nand2_area != 1]
    if real:
        tables += [
            "In the unit of the library, which is µm² in most:",
            _area_table(report, [report.targets[i].label for i in real], real, lambda area: area.cell_area or 0.0),
        ]
    return tables


def _area_table(report: Report, headings: Sequence[str], columns: Sequence[int],
                value: Callable[[Area], float]) -> str:
    rows = [[name, *[f"{value(area):.0f}" if (area := results[i].area) else "failed" for i in columns]]
            for name, results in report.by_point.items()]
    return _table(["design", *headings], rows)


def _growth(report: Report) -> list[str]:
    if not report.fits:
        return ["Too few widths were measured for a curve: it takes four."]
    rows = [[fit.target.label, fit.part, ", ".join(map(str, fit.widths)), f"{fit.a:.1f}", f"{fit.b:.2f}",
             f"{fit.c:.3f}", f"{fit.r_squared:.4f}", f"{fit.worst:.0%}"] for fit in report.fits]
    return [
        "Area = a + b·p + c·p², where p is the significand width, hidden bit included; least squares over the "
        "significand products, and over the multipliers with 8 exponent bits (so without fp16 and fp8).",
        _table(["target", "part", "widths p", "a", "b", "c", "R²", "largest deviation"], rows, words=3),
        "![Area against significand width, and ratios beside the claims](area.png)",
    ]


def _claims(report: Report) -> list[str]:
    """Google's claim, and each ratio beside it."""
    headings = ["", "part", "bf16", *CLAIMS]
    claims = [
        ["claimed", "multiplier", "1", *[f"{claim:.0f}" for claim in CLAIMS.values()]],
        ["p²", "for p = 8, 11, 24", "1", *[f"{(width / 8) ** 2:.2f}" for width in (11, 24)]],
    ]
    return [
        "Google's case for bf16 ('BFloat16: The secret to high performance on Cloud TPUs') is that a multiplier's "
        "size grows with the square of the 'mantissa' width, which makes that for bf16 'half of fp16' and 'an "
        "eighth of fp32'. In units of bf16:",
        _table(headings, claims + [_ratio(ratio) for ratio in report.ratios], words=2),
    ]


def _ratio(ratio: Ratio) -> list[str]:
    return [ratio.target.label, ratio.part, f"1 ({ratio.bf16:.0f} {ratio.target.unit})",
            *[f"{ratio.others[name]:.2f}" if name in ratio.others else "-" for name in CLAIMS]]


def _catalog(report: Report) -> list[str]:
    """The designs of the catalog, and how the areas of those that were not measured come about."""
    if not report.catalog:
        return []
    headings, rows = catalog_table(report)
    lines = [
        "## The catalog's designs",
        "Each module that a design has several times, such as the processing element, is mapped once and counted "
        "as often as it is there; nothing is saved across its borders. Memories are counted in bits. They, with "
        "their ports and the registers of these, are in no other figure.",
        _table(headings, rows, words=CATALOG_WORDS),
    ]
    derived = [entry for entry in report.catalog if entry.derived and entry.target == report.catalog[0].target]
    if derived:
        lines += [
            f"Designs of more than {MEASURED_CELLS} processing elements are derived: sums of parts that were measured "
            "at their real size, and of the shift registers of skew and control, bit by bit. A test holds the rule "
            f"to units measured whole on generic gates, within {DEVIATION:.0%}. On {derived[0].target.label}:",
            _table(["design", "part", "number", f"area of one ({derived[0].target.unit})", "flip-flops of one",
                    "memory bits of one"], [row for entry in derived for row in _terms(entry)], words=2),
        ]
    return lines


def _terms(entry: Entry) -> list[list[str]]:
    """A row for each part of a derived design."""
    rows = []
    for term in entry.terms:
        area = term.result.area
        counted = [f"{area.area:,.1f}", f"{area.flip_flops:,}", f"{area.memory_bits:,}"] if area else ["failed"] * 3
        rows.append([entry.design.name, term.result.point.part, f"{term.count:,}", *counted])
    return rows


def _published() -> list[str]:
    """What others published, with what is known of the conditions."""
    rows = []
    for source, conditions, areas in _PUBLISHED:
        unit = "bf16" if "bf16" in areas else "fp16"
        rows.append([source, conditions, ", ".join(f"{name} {area}" for name, area in areas.items()),
                     ", ".join(f"{name}/{unit} {area / areas[unit]:.2f}" for name, area in areas.items()
                               if name != unit)])
    return [
        "Multipliers of other designs, from other tools and processes: only the ratios within a line mean "
        f"anything here. The claims together put fp32 at {CLAIMS['fp32'] / CLAIMS['fp16']:.0f} times fp16.",
        _table(["source", "conditions", "published areas", "ratios"], rows, words=4),
        "Arm, ARITH 2019, on its BFDOT unit against one with full IEEE 754: one rounding mode saves 25 %, flushed "
        "subnormals 15 %, all simplifications 65 %.",
    ]


def _failures(report: Report) -> list[str]:
    if not report.failed:
        return []
    return ["## What failed", *[f"{result.point.name} on {result.target.label}:\n\n```\n{result.error}\n```"
                                for result in report.failed]]


def _scripts(report: Report) -> list[str]:
    """The scripts; those of the points differ in the name of the top module alone."""
    return [
        "`area.json` has the exact script for each figure, and the SHA-256 of the RTLIL that it was run on. `/job` "
        "is the run's directory, `/lib` that of the libraries; TOP stands for the design's top module.",
        *[f"{target.label}:\n\n```\n{target.script.format(top='TOP')}```" for target in report.targets],
    ]
