"""The area report as one HTML page that needs nothing else: no network, no other file."""

import html
import re
from collections.abc import Mapping

from openmxu.area.finding.findings import Report
from openmxu.area.pages.markdown import to_markdown
from openmxu.area.pages.plot import BLUE, GREY, INK, LINE, PAPER
from openmxu.area.run.measure import Result
from openmxu.pages.document import page, render

_COLUMNS = ("design", "target", "recipe", "area", "unit", "flip-flops", "depth", "ns", "figure")


def to_html(report: Report, images: Mapping[str, bytes]) -> str:
    """The page."""
    body = re.sub(
        r'<img src="([^"]*)" alt="([^"]*)" ?/?>',
        lambda match: _figure(images[match[1]], match[1], match[2]),
        render(to_markdown(report, images)),
    )
    return page("OpenMXU: areas", body + _figures(report))


def _figure(svg: bytes, name: str, alternative: str) -> str:
    """A plot in the page's own colours, with identifiers that no other plot uses."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    prefix = re.sub(r"\W", "-", name)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{prefix}-", text)
    for colour, own in (
        (INK, "currentColor"),
        (GREY, "currentColor"),
        (PAPER, "var(--paper)"),
        (LINE, "var(--line)"),
        (BLUE, "var(--blue)"),
    ):
        text = text.replace(colour, own)
    return text.replace("<svg ", f'<svg role="img" aria-label="{alternative}" ', 1)


def _figures(report: Report) -> str:
    """A row for each measurement."""
    rows = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in _row(each))}</tr>" for each in report.runs
    )
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    return (
        '<h2>All figures</h2><p><label>Show only rows with <input id="filter" type="search" placeholder="bf16 ecp5">'
        f'</label></p><div class="wide"><table id="figures"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        "</div>"
    )


def _row(result: Result) -> list[str]:
    area = result.area
    return [
        result.point.name,
        result.target.name,
        result.target.recipe,
        f"{area.area:,.1f}" if area else "failed",
        result.target.unit,
        f"{area.flip_flops:,}" if area else "",
        "" if result.depth is None else str(result.depth),
        "" if result.delay is None else f"{result.delay:.2f}",
        result.figure,
    ]
