"""Tables in Markdown, and the texts in their cells."""

import re
from collections.abc import Sequence
from dataclasses import dataclass


class Marked(str):
    """Text that is Markdown already."""

    __slots__ = ()


def escaped(text: str) -> str:
    """Text in Markdown that is shown as it is, whoever wrote it: no HTML, no markup, one line."""
    if isinstance(text, Marked):
        return text
    line = inert(" ".join(text.split()))
    # Underscores within a word, as names of cells have them, are no markup.
    return re.sub(r"[\\`*\[\]|~$]|(?<!\w)_+|_+(?!\w)", lambda match: "".join(f"\\{char}" for char in match[0]), line)


def inert(text: str) -> str:
    """Text in Markdown without HTML; for lines of tools, which a terminal shows, too."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def fenced(text: str) -> str:
    """Lines in Markdown that are shown as they are, between fences longer than any of their own."""
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", text))]))
    return f"{fence}\n{text}\n{fence}"


def reason(error: str) -> str:
    """The line of a failure with the reason: Yosys's own, or the last line."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line or "error:" in line]
    return (errors or lines or [""])[-1]


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """A Markdown table; all but the first ``words`` columns are numbers, set to the right."""
    marks = ["---" if i < words else "---:" for i in range(len(headings))]
    lines = [marks if cells is marks else list(map(escaped, cells)) for cells in (headings, marks, *rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def span(values: Sequence[float], digits: int = 2) -> str:
    """The smallest and the largest of some values, once if they are written alike."""
    low, high = f"{min(values):,.{digits}f}", f"{max(values):,.{digits}f}"
    return low if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class Table:
    """A table of a report, which may have no rows; the first ``words`` columns hold words, all others numbers."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __str__(self) -> str:
        return table(self.headings, self.rows, words=self.words)


def counted(number: int, noun: str) -> str:
    """A number of things: ``1 cell``, ``2 cells``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
