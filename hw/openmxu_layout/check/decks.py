"""A foundry's checks of masks, run by KLayout: design rules, and the circuit against a schematic.

KLayout is run as a program. What it says is read from its databases: a report with an entry for each violation of a
rule, and the cross-reference of two netlists.
"""

import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from openmxu.runtime import process
from openmxu.runtime.native import program_identity

_LIMIT = 7200.0
"""Seconds after which a check is given up. The circuit of a 2x2 unit takes two minutes."""

_CRASHED, _TRIES = (11, -11), 5
"""KLayout's exit codes after a segmentation fault, and how often it may try."""

_UNCOLLECTED = {
    "RUBY_GC_HEAP_INIT_SLOTS": "5000000",
    **{f"RUBY_GC_{limit}LIMIT{most}": "4000000000" for limit in ("MALLOC_", "OLDMALLOC_") for most in ("", "_MAX")},
}
"""Settings by which KLayout's Ruby collects no garbage: 0.28.5 loses shapes that it is still reading, and then crashes,
with the larger deck on some layouts every second time."""


class CheckError(RuntimeError):
    """KLayout gave no result; the text ends with its last lines."""


@dataclass(frozen=True)
class Violations:
    """Violations of design rules."""

    rules: int
    """Number of rules that were checked."""
    counts: Mapping[str, int]
    """Violations by the rule's name, where there are any."""
    densities: Mapping[str, int]
    """Those of rules about how much of an area a layer covers, which fill meets once blocks are put together."""


def find_klayout() -> str:
    """``KLayout`` and its version; empty if it is not installed."""
    program = shutil.which("klayout")
    return (
        process.run([program, "-v"], what="KLayout, asked for its version,", limit=60).output.strip() if program else ""
    )


def klayout_identity() -> str:
    """Tells KLayout from another program that gives the same version, for the keys of results; empty without it."""
    program = shutil.which("klayout")
    return " ".join(program_identity(program)) if program else ""


def check_rules(masks: Path, top: str, deck: Path, rules: int) -> Violations:
    """Check the design rules of a deck, which has a number of them."""
    with process.workspace() as work:
        report = work / "report.lyrdb"
        _klayout(deck, {"in_gds": masks, "cell": top, "report_file": report}, work)
        if not report.is_file():
            raise CheckError(f"KLayout left no report of {deck.name}")
        found = read_report(report.read_text())
    if found.rules != rules:
        raise CheckError(f"KLayout must check the {rules} rules of {deck.name}, not {found.rules}")
    return found


def read_report(text: str) -> Violations:
    """Read the text of a report database."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise CheckError(f"KLayout must leave a whole report: {error}") from None
    rules = {
        rule.findtext("name", ""): rule.findtext("description", "") for rule in root.iterfind("categories/category")
    }
    found = Counter(item.findtext("category", "").strip("'") for item in root.iterfind("items/item"))
    if unknown := found.keys() - rules.keys():
        raise CheckError(
            f"KLayout's report has violations of rules that it does not list: {', '.join(sorted(unknown))}"
        )
    dense = {name for name, words in rules.items() if re.search(r"\b(density|coverage)\b", words)}
    return Violations(
        len(rules),
        {name: number for name, number in sorted(found.items()) if name not in dense},
        {name: number for name, number in sorted(found.items()) if name in dense},
    )


def check_circuit(masks: Path, schematic: str, top: str, deck: Path) -> "Circuit":
    """The circuit in masks, whose cells KLayout compares with those of a schematic in SPICE."""
    with process.workspace() as work:
        (work / "schematic.cir").write_text(schematic)
        report = work / "report.lvsdb"
        variables = {
            "input": masks,
            "topcell": top,
            "schematic": work / "schematic.cir",
            "report": report,
            "target_netlist": work / "extracted.cir",
            "run_mode": "deep",
        }
        _klayout(deck, variables, work)
        if not report.is_file():
            raise CheckError(f"KLayout left no comparison by {deck.name}")
        with report.open() as lines:
            return read_circuit(lines, top)


class Place(NamedTuple):
    """A cell in masks."""

    master: str
    at: str
    """Its mirroring and its origin in nm, as in ``M Y(480 7560)``."""


@dataclass(frozen=True)
class Circuit:
    """What KLayout finds in masks."""

    cells: Sequence[Place]
    """Those that have transistors."""
    nets: Sequence[tuple[str, frozenset[tuple[Place, str]]]]
    """For each net its texts, joined by commas, and its pins: cells and names."""
    wrong: Sequence[str]
    """What differs within cells, and what is in no cell, in words."""


def read_circuit(lines: Iterable[str], top: str) -> Circuit:
    """Read KLayout's database.

    Its comparison of the whole circuit is left alone: it pairs nets that are alike as it likes, and so cannot tell
    whether each has the right pins. But a database has the place of each cell.
    """
    pins: dict[tuple[str, str], list[str]] = defaultdict(list)  # names of a cell's pins, in masks (J) and schematic (H)
    cells: list[Place] = []
    texts: dict[str, str] = {}  # of nets, by number
    ends: dict[str, list[tuple[Place, str]]] = defaultdict(list)
    wrong, equal = list[str](), set[str]()
    section = circuit = ""
    for line in lines:
        if match := re.match(r"([JHZ])\(", line):
            section = match[1]
        elif match := re.match(r" X\((\S+)(?: (?!\(\))\S+ (\w))?", line):
            circuit = match[1].upper()
            if section == "Z" and match[2] in _EQUAL:
                equal.add(circuit)
        elif match := re.match(r"  P\(\d+(?: I\((?:'(.*)'|(.*?))\))?\)", line):
            pins[section, circuit].append(match[1] or match[2] or "no name")
        elif section == "Z" and (match := re.match(r"   P\((\d+) (\d+) ", line)) and circuit != top.upper():
            # KLayout knows a cell's pins by its transistors: each must have the schematic's name, too.
            ours, theirs = (
                pins[side, circuit][int(number) :][:1] for side, number in zip("JH", match.groups(), strict=True)
            )
            if [name.upper() for name in ours] != [name.upper() for name in theirs]:
                equal.discard(circuit)
        elif section != "J" or circuit != top.upper():
            continue
        elif match := re.match(r"  N\((\d+)(?: I\((?:'(.*)'|(.*?))\))?", line):
            texts[match[1]] = match[2] or match[3] or ""
        elif match := re.match(r"  X\(\d+ (\S+) (.*)", line):
            cells.append(Place(*match.groups()))
        elif match := re.match(r"   P\((\d+) (\d+)\)", line):
            ends[match[2]].append(_pin(cells, pins, int(match[1])))
        elif match := re.match(r"  D\((?:\d+) (\S+)", line):
            wrong.append(f"a transistor {match[1]} is in no cell")
    if ("J", top.upper()) not in pins:
        raise CheckError(f"KLayout's database must have {top}")
    wrong += [
        f"circuit {name} differs" for name in sorted({cell.master for cell in cells}) if name.upper() not in equal
    ]
    return Circuit(cells, [(text, frozenset(ends[net])) for net, text in texts.items()], wrong)


def _pin(cells: Sequence[Place], pins: Mapping[tuple[str, str], Sequence[str]], number: int) -> tuple[Place, str]:
    """The last cell, and the name of its pin of a number."""
    try:
        return cells[-1], pins["J", cells[-1].master.upper()][number]
    except IndexError:
        raise CheckError("KLayout's database has a pin of no cell") from None


_EQUAL = ("1", "W")
"""KLayout's marks of what matches; with W there was a choice, as among transistors that do the same."""


def _klayout(deck: Path, variables: Mapping[str, object], work: Path) -> str:
    """Run a deck, and return all that KLayout says."""
    program = shutil.which("klayout")
    if program is None:
        raise CheckError("KLayout is not installed (Debian and Ubuntu: apt install klayout)")
    # Without a home of its own it reads settings of the user's.
    words = [word for name, value in variables.items() for word in ("-rd", f"{name}={value}")]
    for _ in range(_TRIES):
        done = process.run(
            [program, "-b", "-r", str(deck), *words],
            what="KLayout",
            limit=_LIMIT,
            directory=work,
            environment=os.environ | {"KLAYOUT_HOME": str(work)} | _UNCOLLECTED,
        )
        if done.code not in _CRASHED:
            break
    if done.code:
        raise CheckError("\n".join([f"KLayout failed with {done.ending}", *done.last(6)]))
    return done.output + done.errors
