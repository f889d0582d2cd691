"""The records behind the documentation: shown as they are, and as old as what they measure."""

import json
import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from statistics import median

import pytest

from openmxu_evidence.verify.checks import checks
from openmxu_evidence.verify.evidence import Evidence

from .conftest import load_file

_DOCS = Path(__file__).resolve().parent.parent / "docs"
records = load_file(_DOCS / "records.py")


@pytest.mark.parametrize("page", records.PAGES)
def test_pages_show_their_records(page: str) -> None:
    assert (_DOCS / "reference" / page).read_text() == records.written(page), "run python docs/records.py"


def test_all_pages_with_marks_are_written() -> None:
    pages = [_DOCS.parent / "README.md", *_DOCS.glob("*.md"), *_DOCS.glob("[a-z]*/*.md")]  # not what is built
    marked = {page for page in pages if "<!-- end of record -->" in page.read_text()}
    assert marked == {(_DOCS / "reference" / page).resolve() for page in records.PAGES}


def test_long_records_are_whole_where_they_are_built() -> None:
    """The repository has how they begin; the documentation has a row for each check and each figure."""
    built = records.written("verification.md", whole=True)
    assert [row.name for part in records._verified() for row in part.rows if f"| {row.name} |" not in built] == []
    for page in records.LONG:
        begun, whole = records.written(page), records.written(page, whole=True)
        assert len(records._between("record").search(begun)[0].splitlines()) < 32
        lines, sections = map(int, re.findall(r"The whole record, (\d+) lines in (\d+) sections", begun)[0])
        text = records._between("record").search(whole)[0].strip()
        assert (len(text.splitlines()), len(re.findall("^#", text, re.MULTILINE))) == (lines, sections)


def test_ratios_beside_others_are_those_of_the_whole_record() -> None:
    """Each design's with its best recipe: of area and of delay, on both libraries; IHP's table comes first."""
    whole = records.written("peers.md", whole=True)
    ihp, sky130 = (
        {row[0]: row for line in text.splitlines() if len(row := [cell.strip() for cell in line.split("|")[1:-1]]) == 8}
        for text in re.split("^### .*best recipe$", whole, flags=re.MULTILINE)[1:]
    )
    for line, designs in zip(records._peer_ratios().splitlines()[2:], records._BESIDE.values(), strict=True):
        for shown, design in zip(line.split(" | ")[1:], designs, strict=True):
            found = re.findall(r"(\w+) \((\S+), (\S+)\)", shown)
            wanted = [(sky130[design][at], ihp[design][at]) for at in (4, 7)] if design else []
            assert [tuple(pair) for _, *pair in found] == wanted
            assert all((max(pair) < "1.00") == (word in ("smaller", "faster")) for word, *pair in found)


def _record(name: str) -> Evidence:
    return Evidence.of_json((_DOCS / "reference" / f"{name}.json").read_text())


@pytest.mark.parametrize("faults", [False, True], ids=["verification", "faults"])
def test_records_have_all_rows(faults: bool) -> None:
    names = ["faults"] if faults else [f"verification-{part}" for part in records.VERIFIED]
    rows = [(row.group, row.name) for name in names for row in _record(name).rows]
    assert sorted(rows) == sorted(checks(thorough=not faults, faults=faults))


def test_parts_of_the_record_are_what_make_runs() -> None:
    makefile = (_DOCS.parent / "Makefile").read_text()
    words = dict(re.findall(r"^VERIFY\.(\w+) := (.*)$", makefile, re.MULTILINE))
    assert tuple(words) == records.VERIFIED
    for part, only in words.items():
        assert _record(f"verification-{part}").only == tuple(only.split())


def test_readme_says_how_many_checks_are_open() -> None:
    rows = [row for name in records.VERIFIED for row in _record(f"verification-{name}").rows]
    checks = sum(row.status == "open" for row in rows)
    text = " ".join((_DOCS.parent / "README.md").read_text().split())
    assert f"| **{len(rows) - checks} of {len(rows)}** | proofs, " in text
    assert f"hold; {checks} open |" in text


def test_readme_says_of_the_claim_what_the_areas_say() -> None:
    readme, page = (path.read_text() for path in (_DOCS.parent / "README.md", _DOCS / "reference/areas/summary.md"))
    assert "The claim holds for the significand product. The largest part of a bf16 processing element is its" in readme
    verdicts = dict(re.findall(r"^\| ([\w ]+) \| (.* the claim) \|[^|]*\|$", page, re.MULTILINE))
    assert {part for part, text in verdicts.items() if text.count(": at least the claim") == 2} == {
        "significand product"
    }
    row = r"^\| generic \| {} \| 1 \(([\d,]+).* GE\) \|.*\| ([\d.]+)[^|]*\|$"
    adder, element = (re.findall(row.format(part), page, re.MULTILINE)[0] for part in ("adder", "processing element"))
    bf16, element_area = (Decimal(figures[0].replace(",", "")) for figures in (adder, element))
    assert bf16 * Decimal(adder[1]) > element_area / 2  # the fp32 adder alone


def test_readme_fits_on_a_page() -> None:
    assert len((_DOCS.parent / "README.md").read_text().split()) <= 900


def test_a_record_has_no_check_that_was_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    text = records._read("verification-unit.json").replace('"status": "holds"', '"status": "not run"', 1)
    monkeypatch.setattr(records, "_read", lambda name: text)
    with pytest.raises(ValueError, match="must be the record of a run of all checks without failures: make verify-"):
        records._verification()


def test_an_old_record_is_called_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "provenance", lambda: {records.NETLIST: "another"})
    for page, target in (("speed.md", "bench"), ("verification.md", "verify-unit"), ("training.md", "study")):
        assert f"has changed since this was measured; `make {target}` measures it anew" in records.written(page)
    assert "The unit has changed since this was measured.\n" in records.written("peers.md")
    monkeypatch.setattr(records, "_NOISE", -1.0)
    moved = "Moved since the headline page was measured: significand product, multiplier, proc"
    assert moved in records.written("area.md")


def test_pages_read_areas_with_deviations(monkeypatch: pytest.MonkeyPatch) -> None:
    """As reports write them that measured several orders; README has four rows of what the page opens with."""
    read = records._read
    parts = ("significand product", "multiplier", "processing element", "array", "unit")
    rows = "".join(f"| generic | {part} | 1 (1,234 ± 5 GE) | 2.00 ± 0.01 | 8.00 |\n" for part in parts)
    rows += "| energy, processing element at the same clock | 1 | 2.5 to 9.5 pJ |\n"
    first = "| bf16 = 1 | fp16 | tf32 | fp32 | bf16 | fp8_e4m3 |\n|---|--:|--:|--:|--:|--:|\n"
    first += "| area, multiplier | 1.60 ± 0.01 | 1.8 | 7.5 | 574 GE | 0.3 |\n| area, adder | 1 | 2 | 3 | 4 | 5 |\n"
    page = f"# Areas\n\n## In short\n\n{first}\n![A plot](headline.svg)\n\n## The claims\n\n{rows}"
    monkeypatch.setattr(records, "_read", lambda name: page if name == "areas/summary.md" else read(name))
    assert "| unit | 1,234 | " in records.written("area.md")
    readme = records.written("../../README.md")
    heads = "| bf16 = 1 | fp16 | fp32 | fp8_e4m3 | bf16 |\n| --- | ---: | ---: | ---: | ---: |\n"
    shown = f"{heads}| area, multiplier | 1.60 ± 0.01 | 7.5 | 0.3 | 574 GE |\n"
    assert f"<!-- areas -->\n\n{shown}\n<!-- end of areas -->" in readme
    index = records.written("../index.md")
    assert "| **1,234 GE** | a bf16 processing element" in index
    assert "; 2.5 to 9.5 pJ per cycle, depending on cell library and clock | [areas and energies](ref" in index


def test_readme_has_what_a_host_gets_of_each_board() -> None:
    """Of the system that ``board build`` makes without options that change the array's elements."""
    readme = (_DOCS.parent / "README.md").read_text()
    shown = re.findall(r"^\| `([\w-]+)` \| (\d+)x(\d+) \| ([\d.]+) \| ([\d.]+) \|$", readme, re.MULTILINE)
    builds = json.loads((_DOCS / "reference/boards.json").read_text())["builds"]
    assert {board for board, *_ in shown} == {build["board"] for build in builds}
    for board, rows, columns, peak, gets in shown:
        sizes = {"rows": int(rows), "columns": int(columns)}
        [build] = [each for each in builds if each["board"] == board and {**each["unit"], **sizes} == each["unit"]]
        assert Decimal(peak) == Decimal(2 * int(rows) * int(columns) * build["frequency"] / 1e9).quantize(
            Decimal("0.01")
        )
        side, cycles, clock = (build["throughput"][name] for name in ("side", "cycles", "clock"))
        assert abs(float(gets) - 2 * side**3 * clock / cycles / 1e6) <= 0.005


def test_the_areas_page_says_of_the_claims_what_its_figures_say() -> None:
    """By the rule that stands there, from the ratios of all targets that count, worked out again in decimals."""
    page = (_DOCS / "reference/areas/summary.md").read_text()
    doubted = re.findall(r"^\| (\S+) \| cell library.* \| [^|]+ \|$", page, re.MULTILINE)
    ratios: dict[tuple[str, str], list[Decimal]] = {}
    row = r"^\| (\S+) \| ([\w ]+) \| 1 \([^|]*\| (\S+)[^|]*\| (\S+)[^|]*\|$"
    for target, part, *found in re.findall(row, page, re.MULTILINE):
        for name, ratio in zip(("fp16", "fp32"), found, strict=True):
            if target not in doubted and ratio != "-":
                ratios.setdefault((name, part), []).append(Decimal(ratio))
    assert len(ratios["fp32", "multiplier"]) >= 8
    expected = set()
    for (name, part), values in ratios.items():
        middle = median(values).quantize(Decimal("0.01"), ROUND_HALF_UP)
        share = middle / {"fp16": 2, "fp32": 8}[name]
        word = "at least" if share >= 1 else "within 10 % of" if share >= Decimal("0.9") else "less than"
        expected.add((name, word, part, middle))
    said = set()
    cell = r"(?:.*median )?([\d.]+): (.*) the claim"
    for part, *cells in re.findall(r"^\| ([\w ]+) \| ([^|]*) \| ([^|]* the claim) \|", page, re.MULTILINE):
        for name, match in zip(("fp16", "fp32"), (re.fullmatch(cell, text) for text in cells), strict=True):
            said |= {(name, match[2], part, Decimal(match[1]))} if match else set()
    assert said == expected
