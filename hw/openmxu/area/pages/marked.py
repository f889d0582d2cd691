"""Tables in Markdown, and what stands in them."""

from collections.abc import Sequence

__all__ = ["span", "table"]


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """A Markdown table; all but the first ``words`` columns are numbers, set to the right."""
    marks = ["---" if i < words else "---:" for i in range(len(headings))]
    lines = [[cell.replace("|", r"\|") for cell in cells] for cells in (headings, marks, *rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def span(values: Sequence[float], digits: int = 2) -> str:
    """The smallest and the largest of some values, once if they are written alike."""
    low, high = f"{min(values):,.{digits}f}", f"{max(values):,.{digits}f}"
    return low if low == high else f"{low} to {high}"
