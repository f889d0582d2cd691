"""Writes the records of measurements into their pages, as tables: ``python docs/records.py``.

A page has a mark where its record begins and one where it ends. A test compares the text between them with the record.
If the unit has changed since a record was measured, the page says so.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from openmxu.area.chapters import peer_tables as peers
from openmxu.area.finding.comparison import Comparison
from openmxu.area.subject.points import PROCESSING_ELEMENT
from openmxu.export.provenance import NETLIST, provenance
from openmxu.pages.tables import span, table
from openmxu_boards.bitstream import record as builds
from openmxu_boards.simulated.throughput import Throughput
from openmxu_evidence.verify.check import FAILED, HOLDS, NOT_RUN
from openmxu_evidence.verify.evidence import Evidence, faults_to_markdown, to_markdown
from openmxu_sim.studies import accuracy, roofline
from openmxu_studies import speed
from openmxu_studies.layouts import formats
from openmxu_studies.networks import sizes
from openmxu_studies.pretrained import answers as pretrained
from openmxu_studies.recipes import recipe_report
from openmxu_studies.speed.measure import ROW_ENGINE
from openmxu_studies.training import record as training
from openmxu_studies.training import tables as report

_REFERENCE = Path(__file__).parent / "reference"


def _between(mark: str) -> re.Pattern[str]:
    """What stands between the marks of a record."""
    return re.compile(rf"(?<=<!-- {mark} -->\n)(.|\n)*(?=<!-- end of {mark} -->)")


def _read(name: str) -> str:
    return (_REFERENCE / name).read_text()


def _evidence(name: str, target: str, *, thorough: bool) -> Evidence:
    """A record of all checks, without failures."""
    evidence = Evidence.of_json(_read(name))
    if evidence.count(FAILED) or evidence.count(NOT_RUN) or evidence.thorough != thorough:
        raise ValueError(f"{name} must be the record of a run of all checks without failures: make {target}")
    return evidence


def _age(tools: Mapping[str, str], target: str) -> str:
    """What is to be said of a record that is older than the unit."""
    if tools.get(NETLIST) == provenance()[NETLIST]:
        return ""
    return f"The unit has changed since this was measured; `make {target}` measures it anew.\n\n"


def _speed() -> str:
    report = speed.Report.of_json(_read("speed.json"))
    return _age(report.tools, "bench") + speed.to_markdown(report)


VERIFIED = ("arithmetic", "unit", "engines", "mutants")
"""Parts of the record of `make verify`, each made anew by itself."""


def _verified() -> list[Evidence]:
    """Each part of the thorough run."""
    return [_evidence(f"verification-{part}.json", f"verify-{part}", thorough=True) for part in VERIFIED]


def _verification() -> str:
    parts = _verified()
    ages = (_age(evidence.tools, f"verify-{part}") for part, evidence in zip(VERIFIED, parts, strict=True))
    return "".join(ages) + to_markdown(*parts)


def _index() -> str:
    """The figures that matter most, one of each kind."""
    summary = _read("areas/summary.md")
    area = re.search(r"^\| generic \| processing element \| 1 \(([\d,]+)[^|]* GE\)", summary, re.MULTILINE)
    energy = re.search(
        r"^\| energy, processing element at the same clock \|.*\| ([\d.]+ to [\d.]+ pJ) \|$", summary, re.MULTILINE
    )
    assert area is not None, "the headline page has it"
    assert energy is not None, "the headline page has it"
    cells = (
        f"| **{area[1]} GE** | a bf16 processing element with an fp32 adder, rounding and special values; "
        f"{energy[1]} per cycle, depending on cell library and clock | "
        "[areas and energies](reference/areas/summary.md) |"
    )
    return _figures(_holding(), _simulated(), cells, _laid_out())


def _figures(*rows: str) -> str:
    """Rows as a table, and whether they are old."""
    age = _age(speed.Report.of_json(_read("speed.json")).tools, "bench")
    return age + "\n".join(["| | | |", "|---|---|---|", *rows])


def _numbers() -> str:
    """Three of them, for README."""
    return _figures(_holding(), _simulated(), _laid_out()).replace("](reference/", "](docs/reference/")


def _holding() -> str:
    """The row on what was checked."""
    verified = _verified()
    total, holds = sum(len(part.rows) for part in verified), sum(part.count(HOLDS) for part in verified)
    still_open = f"; {total - holds} open" if holds < total else ""
    return (
        f"| **{holds} of {total}** | proofs, exhaustive checks, explorations and mutation tests hold{still_open} | "
        "[the evidence](reference/verification.md) |"
    )


def _simulated() -> str:
    """The row on speed."""
    report = speed.Report.of_json(_read("speed.json"))
    full, rows = report.find("compiled", 128), report.find(ROW_ENGINE, 128)
    assert full is not None, "a full run has it"
    assert rows is not None, "a full run has it"
    return (
        f"| **{full.rate:,.0f}** | simulated cycles per second of a 128x128 unit's RTL on one core, "
        f"{full.rate / rows.rate:.0f} times as fast as Verilator | [speed](reference/speed.md) |"
    )


def _laid_out() -> str:
    """The row on the element's layout."""
    found = formats.Layouts.of_json(_read("layouts.json"))
    bf16, fp16, fp32 = (found.find(PROCESSING_ELEMENT, name) for name in ("bf16", "fp16", "fp32"))
    assert bf16, "the study has it"
    assert fp16, "the study has it"
    assert fp32, "the study has it"
    return (
        f"| **{bf16.core_um2:,.0f} µm²** | a bf16 processing element laid out on IHP's open 130 nm process, checked by "
        f"the foundry's rules: {span(bf16.wired_pj, 1)} pJ per cycle with wires and clock tree; fp16's takes "
        f"{fp16.core_um2 / bf16.core_um2:.2f} and fp32's {fp32.core_um2 / bf16.core_um2:.2f} times its core | "
        "[layouts](reference/layouts.md) |"
    )


_HEADLINES = {
    "significand product": "product",
    "multiplier": "multiplier_bf16",
    "processing element": "pe",
    "array": "array_4x4",
    "unit": "mxu_4x4",
}
"""Parts on the headline page, and the designs of the catalog that are the same."""


def _areas() -> str:
    """The headline page beside the catalog's areas, which a test measures: both on generic gates."""
    rows = re.findall(
        r"^\| generic \| ([\w ]+) \| 1 \(([\d,]+)(?: ± [\d,]+)? GE\)", _read("areas/summary.md"), re.MULTILINE
    )
    then = {part: int(area.replace(",", "")) for part, area in rows}
    now = json.loads(_AREAS.read_text())["designs"]
    lines = [
        "| bf16, on generic gates | headline page, GE | now, GE |",
        "|---|--:|--:|",
        *(f"| {part} | {then[part]:,} | {now[name]['GE']:,.0f} |" for part, name in _HEADLINES.items()),
    ]
    moved = [part for part, name in _HEADLINES.items() if abs(then[part] - now[name]["GE"]) > _NOISE * then[part]]
    if moved:
        lines += ["", f"Moved since the headline page was measured: {', '.join(moved)}. `make areas` measures it anew."]
    return "\n".join(lines)


_SHOWN = ("bf16 = 1", "fp16", "fp32", "fp8_e4m3", "bf16")
_ROWS = (
    "Google's claim, of a multiplier",
    *("area, multiplier", "area, multiplier as hardware has each format"),
    *(f"{cost}, processing element at the same clock" for cost in ("area", "energy")),
)
"""Columns and rows of the headlines' table in README."""


def _headline() -> str:
    """The table that the page of measured areas opens with, of a few formats."""
    found = re.search(r"^## In short\n\n((?:\|.*\n)+)", _read("areas/summary.md"), re.MULTILINE)
    if found is None:
        raise ValueError("areas/summary.md must begin with its headlines: make areas")
    names, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in found[1].splitlines())
    shown = [[row[names.index(name)] for name in _SHOWN] for row in rows if row[0] in _ROWS]
    return table(_SHOWN, shown)


_AREAS = Path(__file__).parent.parent / "tests/openmxu/area/areas.json"
_NOISE = 0.005
"""By how much ABC's results differ for equal logic in another context."""


def _peers() -> str:
    """Designs of others beside ours."""
    found = Comparison.of_json(_read("peers.json"))
    is_old = found.tools[NETLIST] != provenance()[NETLIST]
    return ("The unit has changed since this was measured.\n\n" if is_old else "") + peers.to_markdown(found)


_BESIDE = {
    "multiplier": (
        "HardFloat multiplier, recoded ports",
        "HardFloat multiplier",
        "FPnew multiplier",
        "ChipLab multiplier",
    ),
    "adder": ("HardFloat adder, recoded ports", "HardFloat adder", "FPnew adder", "ChipLab adder"),
    "multiply-add": (
        "HardFloat multiplier and adder, recoded ports",
        "HardFloat multiplier and adder",
        "FPnew fused, mixed formats",
        "ChipLab multiplier and adder",
    ),
    "processing element": ("HardFloat in our registers, recoded ports", "HardFloat in our registers", "", ""),
}
"""Our parts with gradual underflow, and the designs of the record that do the same."""


def _peer_ratios() -> str:
    """What each design takes beside ours, each with its best recipe on each library."""
    found = Comparison.of_json(_read("peers.json"))
    against = {design.name: design.against for design in found.designs}
    libraries = [[each for each in found.targets if name in each.name] for name in ("sky130", "sg13g2")]

    def ratios(design: str, figure: str, smaller: str, larger: str) -> str:
        values = []
        for library in libraries:
            theirs, ours = (peers.least(found, name, library, figure)[0] for name in (design, against[design]))
            values.append(theirs / ours)
        word = smaller if max(values) < 1 else larger if min(values) >= 1 else "alike"
        return f"{word} ({', '.join(f'{value:.2f}' for value in values)})"

    def beside(design: str) -> str:
        size, delay = ratios(design, "combinational", "smaller", "larger"), ratios(design, "delay", "faster", "slower")
        return f"{size}, {delay}"

    rows = [[part, *(beside(design) if design else "" for design in designs)] for part, designs in _BESIDE.items()]
    return table(["beside our", "HardFloat, recoded ports", "HardFloat", "FPnew", "ChipLab"], rows, words=5)


def _errors() -> accuracy.Accuracy:
    return accuracy.Accuracy.of_json(_read("accuracy.json"))


def _training() -> str:
    """What networks learned; areas are those of the unit then."""
    found, terms = (training.Study.of_json(_read(f"training{name}.json")) for name in ("", "-terms"))
    several = _several(_age(terms.tools, "study") + report.to_markdown(terms))
    return _age(found.tools, "study") + report.to_markdown(found) + several


def _recipes() -> str:
    """What networks learned by recipes."""
    found = recipe_report.Recipes.of_json(_read("recipes.json"))
    return _age(found.tools, "recipes") + recipe_report.to_markdown(found)


def _pretrained() -> str:
    """What published networks answered."""
    found, terms = (pretrained.Pretrained.of_json(_read(f"pretrained{name}.json")) for name in ("", "-terms"))
    return pretrained.to_markdown(found) + _several(pretrained.to_markdown(terms))


def _networks() -> str:
    """What networks take on accelerators of several sizes."""
    found = sizes.Networks.of_json(_read("networks.json"))
    return _age(found.tools, "networks") + sizes.to_markdown(found)


def _layouts() -> str:
    """What formats cost in layouts."""
    found = formats.Layouts.of_json(_read("layouts.json"))
    return _age(found.tools, "layouts") + formats.to_markdown(found)


def _several(text: str) -> str:
    """The part of a page on several terms."""
    return "\n## Several terms\n\n" + text.replace("\n## ", "\n### ")


def _boards() -> str:
    """What was built for boards; each build has its own state of the project."""
    found = builds.of_json(_read("boards.json"))
    old = [build for build in found if build["tools"][NETLIST] != provenance()[NETLIST]]
    since = "The unit has changed since some of these were built.\n\n" if old else ""
    return f"{since}{_clocks(found)}\n\n{builds.to_markdown(found, f'{builds.PLACEMENTS}/', '###')}"


_CLOCKS = (
    ("icebreaker", 2, 16, 26),
    ("ulx3s-12f", 2, 80, 100),
    ("ulx3s-25f", 4, 75, 100),
    ("ulx3s-85f", 8, 65, 90),
    ("ulx3s-85f", 10, 0, 60),
    ("tang-nano-9k", 2, 40, 60),
    ("tang-nano-20k", 4, 60, 100),
    ("gatemate-a1-evb", 2, 0, 40),
)
"""Of systems: board, side of the array, and the clocks in MHz that are the minimum and the aim; 0: any."""


def _clocks(found: Sequence[Mapping[str, Any]]) -> str:
    """What systems were to reach, and what they do."""
    lines = ["| board | array | minimum, MHz | aim, MHz | Fmax, MHz | |", "|---|---|---:|---:|---:|---|"]
    for board, side, least, aim in _CLOCKS:
        rates = [builds.reached(each) for each in found if _is(each, board, side)]
        reached = max(rates, default=0.0)
        verdict = "aim" if reached >= aim else "minimum" if reached >= max(least, 1) else "no"
        minimum, rate = least or "fits", f"{reached:.1f}" if rates else "-"
        lines.append(f"| `{board}` | {side}x{side} | {minimum} | {aim} | {rate} | {verdict} |")
    return "\n".join(lines)


def _is(build: Mapping[str, Any], board: str, side: int) -> bool:
    """Whether it is a board's system with so large an array."""
    unit = build["unit"]
    return (build["board"], build["design"], unit["rows"], unit["columns"]) == (board, "system", side, side)


def _boards_short() -> str:
    """Each board's largest system of elements with one term, the default, and the throughput for a host."""
    found = [build for build in builds.of_json(_read("boards.json")) if build["design"] == "system"]
    found = [build for build in found if "terms" not in build["unit"]]
    found.sort(key=lambda build: int(build["unit"]["rows"] * build["unit"]["columns"]))
    largest = {build["board"]: build for build in found}
    lines = [
        "`openmxu board build BOARD` makes a bitstream that multiplies for a host, over a UART "
        "([all builds](docs/reference/boards.md)):",
        "",
        "| board | array | array's peak, GFLOP/s | host gets, MFLOP/s |",
        "|---|---|--:|--:|",
    ]
    for name, build in sorted(largest.items()):
        gets = Throughput(**build["throughput"]).flops / 1e6
        lines.append(f"| `{name}` | {builds.size(build['unit'])} | {builds.peak(build):.2f} | {gets:.2f} |")
    return "\n".join(lines)


PAGES: Mapping[str, Callable[[], str]] = {
    "accuracy.md": lambda: accuracy.to_markdown(_errors()),
    "../explanation/element.md": lambda: accuracy.terms_to_markdown(_errors().by_terms),
    "roofline.md": lambda: roofline.to_markdown(roofline.roofline(roofline.Machine())),
    "training.md": _training,
    "recipes.md": _recipes,
    "pretrained.md": _pretrained,
    "networks.md": _networks,
    "layouts.md": _layouts,
    "speed.md": _speed,
    "verification.md": _verification,
    "area.md": _areas,
    "peers.md": _peers,
    "boards.md": _boards,
    "../../README.md": _numbers,
    "../index.md": _index,
    "promises.md": lambda: faults_to_markdown(_evidence("faults.json", "faults", thorough=False)),
}
"""What makes the table of each page."""


_MORE: Mapping[str, Sequence[tuple[re.Pattern[str], Callable[[], str]]]] = {
    "../../README.md": ((_between("areas"), _headline), (_between("boards"), _boards_short)),
    "peers.md": ((_between("ratios"), _peer_ratios),),
}
"""More records of a page, each between marks of its own."""


LONG = {"peers.md": "`peers.json`", "verification.md": "the four files `verification-*.json`"}
"""Pages of thousands of words: the repository has how their records begin, the built documentation all of them."""


def _opening(page: str) -> str:
    """A long record up to its first heading, and where the rest is."""
    text = PAGES[page]().strip()
    sections = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    rest = f"{len(text.splitlines())} lines in {len(sections)} sections"
    begin = text.partition("\n#")[0].strip()
    return f"{begin}\n\nThe whole record, {rest}, is on this page of what `make docs` builds from {LONG[page]}."


def written(page: str, *, whole: bool = False) -> str:
    """The text of a page, with the table that its record gives now; ``whole``: as it is built, where it is long."""
    text = _read(page)
    make_record = partial(_opening, page) if page in LONG and not whole else PAGES[page]
    records = [(_between("record"), make_record), *_MORE.get(page, ())]
    for between, make in records:
        text, count = between.subn(lambda _, make=make: f"\n{make().strip()}\n\n", text)
        if count != 1:
            raise ValueError(f"{page} must have the marks of one record, not of {count}")
    return text


def main() -> None:
    """Write all pages."""
    # All texts first: where one record is of no use, all pages stay as they are.
    texts = {page: written(page) for page in PAGES}
    for page, text in texts.items():
        (_REFERENCE / page).write_text(text)


if __name__ == "__main__":
    main()
