"""Writes the records of measurements into their pages, as tables: ``python docs/records.py``.

A page has a mark where its record begins and one where it ends. A test compares what stands between with the record.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from openmxu_sim import speed
from openmxu_sim.studies import accuracy, roofline
from openmxu_sim.verify.checks import FAILED
from openmxu_sim.verify.report import Evidence, faults_to_markdown, to_markdown

__all__ = ["PAGES", "main", "written"]

_REFERENCE = Path(__file__).parent / "reference"

_BETWEEN = re.compile(r"(?<=<!-- record -->\n)(.|\n)*(?=<!-- end of record -->)")


def _read(name: str) -> str:
    return (_REFERENCE / name).read_text()


def _evidence(name: str, target: str, *, thorough: bool) -> Evidence:
    """A record without failures."""
    evidence = Evidence.of_json(_read(name))
    if evidence.count(FAILED) or evidence.thorough != thorough:
        raise ValueError(f"{name} must be the record of a run without failures: make {target}")
    return evidence


PAGES: Mapping[str, Callable[[], str]] = {
    "accuracy.md": lambda: accuracy.to_markdown(accuracy.Accuracy.of_json(_read("accuracy.json"))),
    "roofline.md": lambda: roofline.to_markdown(roofline.roofline(roofline.Machine())),
    "speed.md": lambda: speed.to_markdown(speed.Report.of_json(_read("speed.json"))),
    "verification.md": lambda: to_markdown(_evidence("verification.json", "verify", thorough=True)),
    "promises.md": lambda: faults_to_markdown(_evidence("faults.json", "faults", thorough=False)),
}
"""What makes the table of each page."""


def written(page: str) -> str:
    """The text of a page, with the table that its record gives now."""
    text, count = _BETWEEN.subn(lambda _: f"\n{PAGES[page]().strip()}\n\n", _read(page))
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
