"""Area reports for people."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from openmxu.area.chapters.citing import citation
from openmxu.area.chapters.clocks import clock_section
from openmxu.area.chapters.conclusion import conclusion, growth_sentence, overview
from openmxu.area.chapters.derived import passes_section, results_section, units_section
from openmxu.area.chapters.energy_tables import energy_details, energy_section
from openmxu.area.chapters.headline import claimed, everything, headline, panels
from openmxu.area.chapters.own import own_designs, own_section
from openmxu.area.chapters.standing import standing_section
from openmxu.area.finding.findings import AS_BUILT, CLAIMS, CONFIDENCE, Cost, Entry, Ratio, Report
from openmxu.area.pages.table import CATALOG_WORDS, catalog_table
from openmxu.area.run.measure import Result
from openmxu.area.subject.designs import DEVIATION, MEASURED_CELLS
from openmxu.area.subject.peers import PeerPoint
from openmxu.area.subject.points import ARRAY, UNIT
from openmxu.area.target.targets import RECIPES, Area, Target
from openmxu.pages.tables import escaped, fenced, table

# Units of others as they published them: source, conditions, description, areas in one unit.
_PUBLISHED = [
    ("Horowitz, ISSCC 2014", "45 nm, µm²", "multiplier", {"fp16": 1640, "fp32": 7700}),
    ("Horowitz, ISSCC 2014", "45 nm, µm²", "adder", {"fp16": 1360, "fp32": 4184}),
    ("ninjakaib, hardware-accelerators", "Nangate45, µm²", "multiplier", {"fp8": 236, "bf16": 1103, "fp32": 6353}),
    ("ninjakaib, hardware-accelerators", "Nangate45, µm²", "adder", {"fp8": 466, "bf16": 1033, "fp32": 3230}),
    ("Horus", "Sky130 HD, µm²", "multiplier", {"fp8_e4m3": 857, "bf16": 2740}),
]

_GATE_CLOCK, _FPGA_CLOCK = 1000, 100
"""MHz at which arrays are compared: an assumption, the same for all formats."""

_PASSES = 6
"""Passes after which a bf16 unit's product is as exact as fp32's; see the page on accuracy."""


def to_markdown(report: Report) -> str:
    """The report as Markdown: the figures, their origin, and the verdicts on the claims."""
    own = own_designs(report)
    return _document(
        f"Area of {escaped(', '.join(own))}, beside ours"
        if own
        else "Area of multipliers, adders, processing elements and matrix units",
        [
            *_headline(report),
            ("Areas", _areas(report)),
            ("Depth and delay", _paths(report)),
            ("Energies of all designs", energy_details(report)),
            ("The catalog's designs", _catalog(report)),
            ("What was measured", [_conditions(report)]),
            ("To cite", citation(report)),
            ("What failed", _failures(report)),
            ("How to repeat a figure", _scripts(report)),
        ],
    )


def to_summary(report: Report) -> str:
    """The report's headline page: its sentences, and the tables behind them."""
    return _document(
        "Measured areas and energies",
        [*_headline(report), ("What was measured", [_conditions(report)]), ("To cite", citation(report))],
    )


def _document(title: str, sections: Sequence[tuple[str, Sequence[str]]]) -> str:
    """The sections that are not empty."""
    blocks = [f"# {title}"]
    for heading, content in sections:
        if content:
            blocks += [f"## {heading}", *content]
    return "\n\n".join(blocks) + "\n"


def _headline(report: Report) -> list[tuple[str, Sequence[str]]]:
    return [
        ("Your design beside ours", own_section(report)),
        ("In short", _in_short(report)),
        ("All quantities", _all_quantities(report)),
        ("The claims", _claims(report)),
        ("Growth with the significand width", _growth(report)),
        ("Where bf16 stands", standing_section(report)),
        ("What a feature costs", _costs(report)),
        ("At the same clock", clock_section(report)),
        ("Energy", energy_section(report)),
        ("Energy of whole units", units_section(report)),
        ("fp32 by passes of bf16, and bf16 results", [*passes_section(report), *results_section(report)]),
        ("A whole array", _arrays(report)),
        ("Published by others, not measured here", _published() if report.ratios else []),
    ]


def _in_short(report: Report) -> list[str]:
    """One table, one plot, five sentences."""
    headings, rows = headline(report)
    sentences = "\n".join(f"- {sentence}" for sentence in conclusion(report))
    opening = [table(headings, rows), _relative(report, rows)]
    plot = ["![Area against significand width, and ratios beside the claims](area.svg)"]
    last = "All figures were measured by the tools named below, except those marked as derived or published by others."
    return [*(opening if rows else []), *(plot if panels(report) else []), *([sentences, last] if sentences else [])]


def _all_quantities(report: Report) -> list[str]:
    """The first table with every row, and its plot."""
    headings, rows = everything(report)
    plot = ["![Cost relative to bf16, beside the claims](headline.svg)"] if claimed(report) else []
    return [*([table(headings, rows), _relative(report, rows)] if rows else []), *plot]


def _relative(report: Report, rows: Sequence[Sequence[str]]) -> str:
    """The meaning of a table of ratios and of its ±."""
    sentences = ["Cost relative to bf16; the last column is bf16 itself, on cell libraries."]
    sentences.append("Ranges span all targets, libraries or clocks.")
    if any(AS_BUILT in row[0] for row in rows):
        sentences.append("As hardware has each format: bf16 flushes subnormals, fp16 and fp32 underflow gradually.")
    if any("same clock" in row[0] for row in rows):
        sentences.append(
            "At the same clock: for each format the best element of all stages and recipes, at three clocks of each "
            "library; energies include glitches, not wires."
        )
    count = max((1 + len(spread.others) for spread in report.spreads), default=0)
    seeds = max((energy.seeds for energy in report.energies), default=0)
    spreads = {
        f"of areas and delays over {count} orders of ABC's inputs and outputs": ("area", "delay"),
        f"of energies over {seeds} seeds of the operands": ("energy",),
    }
    shown = [
        words for words, kinds in spreads.items() if any(row[0].startswith(kinds) and "±" in str(row) for row in rows)
    ]
    return " ".join([*sentences, *([f"±: standard deviation, {', '.join(shown)}."] if shown else [])])


def _conditions(report: Report) -> str:
    lines = [f"- OpenMXU {report.made_by}."] if report.made_by else []
    lines.append(f"- Tool: {report.tool}. Other versions give other areas.")
    for target in report.targets:
        line = f"- {target.label}: {target.title}."
        if target.library:
            line += (
                f" Recipe '{target.recipe}': {RECIPES[target.recipe]}. 1 GE is the area of the library's "
                f"smallest 2-input NAND: {escaped(target.library.nand2)}, {target.library.nand2_area:g}. SHA-256 of "
                f"the library: {target.library.sha256}."
            )
            if target.library.doubt:
                line += f" No statement uses it: {escaped(target.library.doubt)}."
        if target.timing:
            line += (
                f" Delays: {target.timing}, with the loads of gates and the library's default wire load, if it has one."
            )
        lines.append(line)
    designs = dict.fromkeys(result.point.name for result in report.runs if isinstance(result.point, PeerPoint))
    if designs:
        lines.append(
            f"- Designs of yours: {escaped(', '.join(designs))}. Their function and their number of cycles were not "
            "checked."
        )
    lines += [
        "- GE: combinational cells and flip-flops together; the CSV and JSON files separate them. Areas of generic "
        "gates are transistor counts in static CMOS, divided by the 4 of a NAND2; generic gates have no timing. On "
        "cmos, Yosys counts the transistors of its own gates, 16 for a flip-flop.",
        "- LUTs: no wide multiplexers. A CCU2C counts as two LUT4, a Gowin ALU as one. An SB_CARRY shares the logic "
        "cell of the LUT that adds, a CARRY4 those of four. LUT counts exclude the logic inside DSP blocks.",
        "- eXfY is the format with X exponent and Y fraction bits. Multipliers and adders are combinational, have "
        "one format for operands and result unless said otherwise, round to nearest, ties to even, handle NaN and "
        "infinity, and flush subnormals to zero; 'ieee' has gradual underflow. Processing elements have one pipeline "
        "stage unless said otherwise, and fp32 sums.",
        "- Depth: cells on the longest path between ports, flip-flops, memories and modules that are mapped once.",
    ]
    return "\n".join(lines)


def _areas(report: Report) -> list[str]:
    """All areas in comparable units; those on real libraries in the libraries' units, too."""
    tables = [_by_target(report, report.targets, _with_dsps, unit=True)]
    real = [target for target in report.targets if target.library and target.library.nand2_area != 1]
    if real:
        tables += [
            "In the unit of the library, which is µm² in most:",
            _by_target(report, real, lambda result: f"{result.area.cell_area or 0:,.0f}" if result.area else "failed"),
        ]
    return tables


def _with_dsps(result: Result) -> str:
    """An area, and the DSP blocks beside it."""
    if not result.area:
        return "failed"
    return f"{result.area.area:,.0f}{_dsps(result.area)}"


def _dsps(area: Area, cells: int = 1) -> str:
    """For each cell, its counts beside LUTs."""
    return f" + {area.dsps / cells:g} DSP" if area.dsps else ""


def _paths(report: Report) -> list[str]:
    cells = _by_target(report, report.targets, lambda result: "failed" if result.depth is None else str(result.depth))
    tables = ["Cells on the longest path:", cells]
    timed = [target for target in report.targets if target.timing]
    if timed:
        tables += [
            "Nanoseconds, setup of flip-flops included, with the loads of gates and the library's default wire load, "
            "if it has one:",
            _by_target(report, timed, lambda result: "" if result.delay is None else f"{result.delay:.2f}"),
        ]
        notes = {
            escaped(f"{result.point.name} on {result.target.label}: {result.note.splitlines()[-1]}")
            for result in report.results
            if result.note
        }
        tables += ["OpenSTA gave no delay for:\n\n" + "\n".join(f"- {note}" for note in sorted(notes))] if notes else []
    return tables


def _by_target(report: Report, targets: Sequence[Target], value: Callable[[Result], str], *, unit: bool = False) -> str:
    """A row for each point, a column for each target; empty where a point was not measured."""
    rows = [
        [point.name, *[value(result) if (result := report.result(point.name, target)) else "" for target in targets]]
        for point in report.points
    ]
    headings = [f"{target.label} ({target.unit})" if unit else target.label for target in targets]
    return table(["design", *headings], [row for row in rows if any(row[1:])])


def _growth(report: Report) -> list[str]:
    if not report.fits:
        return []
    rows = [
        [
            fit.target.label,
            fit.part,
            f"{len(fit.widths)}, {min(fit.widths)} to {max(fit.widths)}",
            *map(str, (fit.exponent, fit.a, fit.b, fit.c)),
            f"{fit.r_squared:.4f}",
            f"{fit.worst:.0%}",
        ]
        for fit in report.fits
    ]
    return [
        *growth_sentence(report),
        "Two fits: area = a + b·p + c·p², where p is the significand width, hidden bit included; and a power of p, by "
        "least squares of the logarithms. They cover significand products, and parts with 8 exponent bits (so neither "
        f"fp16 nor fp8). In brackets: {CONFIDENCE:.0%} intervals by Student's t. Areas do not vary from run to run, so "
        "the intervals show how well a curve fits.",
        table(["target", "part", "widths p", "exponent", "a", "b", "c", "R²", "largest deviation"], rows, words=3),
    ]


def _claims(report: Report) -> list[str]:
    """Google's claim, and each ratio beside it; empty without ratios."""
    if not report.ratios:
        return []
    verdicts, rows = overview(report)
    headings = ["", "part", "bf16", *CLAIMS]
    claims = [
        ["claimed", "multiplier", "1", *[f"{claim:.0f}" for claim in CLAIMS.values()]],
        ["p²", "for p = 8, 11, 24", "1", *[f"{(width / 8) ** 2:.2f}" for width in (11, 24)]],
    ]
    return [
        "Google's case for bf16 ('BFloat16: The secret to high performance on Cloud TPUs') is that a multiplier's "
        "size grows with the square of the 'mantissa' width, so that bf16's is 'half of fp16' and 'an eighth of "
        "fp32'. Relative to bf16:",
        table(headings, claims + [_ratio(ratio) for ratio in report.ratios], words=2),
        *(["Compared with the claims:", table(verdicts, rows)] if rows else []),
    ]


def _ratio(ratio: Ratio) -> list[str]:
    def spread(name: str, value: float, digits: int) -> str:
        return f" ± {ratio.deviations[name] * value:.{digits}f}" if name in ratio.deviations else ""

    return [
        ratio.target.label,
        ratio.part,
        f"1 ({ratio.bf16:,.0f}{spread('bf16', ratio.bf16, 0)} {ratio.target.unit})",
        *[
            f"{ratio.others[name]:.2f}{spread(name, ratio.others[name], 2)}" if name in ratio.others else "-"
            for name in CLAIMS
        ],
    ]


def _costs(report: Report) -> list[str]:
    """The costs of features: a row for each, a column for each target."""
    if not report.costs:
        return []
    most = Counter(cost.target for cost in report.costs)
    targets = [target for target, count in most.items() if 2 * count >= max(most.values())]
    features: dict[tuple[str, str], dict[Target, Cost]] = {}
    for cost in report.costs:
        features.setdefault((cost.ablation.subject, cost.ablation.feature), {})[cost.target] = cost
    rows = [
        [subject, feature, *[f"{-costs[target].saved:+.1%}" if target in costs else "" for target in targets]]
        for (subject, feature), costs in features.items()
    ]
    return [
        "Change of area when a feature is left out, in per cent of the part that has it. NaN, infinite operands, "
        "rounding and exponents are removed by holding wires of the design at a value before synthesis.",
        table(["part", "left out", *[target.label for target in targets]], rows, words=2),
        "Arm (Burgess and others, ARITH 2019) compare a BFDOT unit with one that has all of IEEE 754: one rounding "
        "mode instead of five saves 25 %, flushing subnormals 15 %, all simplifications together 65 %. Ours "
        "has one rounding mode from the start, and no flags: only the second figure has a counterpart above.",
        "![What leaving features out saves](costs.svg)",
    ]


def _arrays(report: Report) -> list[str]:
    """Arrays and units of the same size: areas for each processing element, and for each GFLOP/s."""
    rows = list(_array_rows(report))
    if not rows:
        return []
    return [
        "The same array with other operands; sums are always fp32, and memories are not counted. A GFLOP/s is half a "
        f"multiply-add each nanosecond, at an assumed clock of {_GATE_CLOCK} MHz on gates and {_FPGA_CLOCK} MHz on "
        f"FPGAs for all formats. A bf16 unit that makes fp32 products in {_PASSES} passes needs {_PASSES} times the "
        "area of the bf16 row for a GFLOP/s of fp32.",
        table(
            [
                "target",
                "design",
                "operands",
                "for each processing element",
                "its flip-flops",
                "for each GFLOP/s",
                "relative to bf16",
            ],
            rows,
            words=3,
        ),
    ]


def _array_rows(report: Report) -> Iterator[list[str]]:
    """Each array and unit beside the one of bf16; none where that one was not measured."""
    for target in report.targets:
        for part in (ARRAY, UNIT):
            results = report.by_format(target, part)
            base = results["bf16"].area if "bf16" in results else None
            clock = _FPGA_CLOCK if target.recipe == "fpga" else _GATE_CLOCK
            for name, result in results.items():
                if not result.area or not base:
                    continue
                cells = result.point.cells
                peak = 2 * cells * clock / 1000
                yield [
                    target.label,
                    f"{result.point.size} {part}",
                    name,
                    f"{result.area.area / cells:,.0f} {target.unit}{_dsps(result.area, cells)}",
                    f"{result.area.flip_flops / cells:,.0f}",
                    f"{result.area.area / peak:,.0f}",
                    f"{result.area.area / base.area:.2f}",
                ]


def _catalog(report: Report) -> list[str]:
    """The designs of the catalog, and the derivation of the areas that were not measured."""
    if not report.catalog:
        return []
    headings, rows = catalog_table(report)
    lines = [
        "A module that a design contains several times, such as the processing element, is mapped once and counted "
        "for each instance; nothing is optimised across its boundary. Memories are counted in bits only: all other "
        "figures exclude them, their ports and the registers of these ports.",
        table(headings, rows, words=CATALOG_WORDS),
    ]
    derived = [entry for entry in report.catalog if entry.derived and entry.target == report.catalog[0].target]
    if derived:
        lines += [
            f"Designs of more than {MEASURED_CELLS} processing elements are derived: they are sums of parts measured "
            "at their real size, and of the shift registers of skew and control, bit by bit. A test compares the sums "
            f"with units measured whole on generic gates, within {DEVIATION:.0%}. On {derived[0].target.label}:",
            table(
                [
                    "design",
                    "part",
                    "number",
                    f"area of one ({derived[0].target.unit})",
                    "flip-flops of one",
                    "memory bits of one",
                ],
                [row for entry in derived for row in _terms(entry)],
                words=2,
            ),
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
    """Figures that others published, with the known conditions."""
    rows = []
    for source, conditions, part, areas in _PUBLISHED:
        unit = "bf16" if "bf16" in areas else "fp16"
        rows.append(
            [
                source,
                conditions,
                part,
                ", ".join(f"{name} {area:,}" for name, area in areas.items()),
                ", ".join(f"{name}/{unit} {area / areas[unit]:.2f}" for name, area in areas.items() if name != unit),
            ]
        )
    return [
        "Other designs, with other tools and processes: compare only the ratios within a row. By the two claims "
        f"together, fp32 takes {CLAIMS['fp32'] / CLAIMS['fp16']:.0f} times the area of fp16.",
        table(["source", "conditions", "unit", "published areas", "ratios"], rows, words=5),
    ]


def _failures(report: Report) -> list[str]:
    return [
        f"Failed: {escaped(result.point.name)} on {result.target.label}:\n\n{fenced(result.error)}"
        for result in report.failed
    ]


def _scripts(report: Report) -> list[str]:
    """The scripts; those of the points differ in the name of the top module, and in the tied bits."""
    return [
        "A figure's name is a digest of all that it depends on. `openmxu area --explain FIGURE -o DIR` prints how the "
        "figure was made. `area.json` has the exact script of each, and the SHA-256 of the RTLIL that it was run on. "
        "`/job` is the run's directory, `/lib` that of the library; TOP stands for the design's top module. If a "
        "feature is left out, lines after the first hold wires at a value.",
        *[f"{target.label}:\n\n```\n{target.script.format(top='TOP', change='')}```" for target in report.targets],
    ]
