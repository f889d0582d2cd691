"""Text of others in Markdown: shown as it is, and never markup."""

import random
from collections import Counter
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from openmxu.pages.tables import Marked, escaped, fenced, inert, table


class Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags, self.links = "", Counter[str](), list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action", "data")]

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(markdown: str) -> Page:
    """HTML in the text is passed on, as many viewers do."""
    return Page(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown))


def test_escaped_text_is_what_it_was() -> None:
    """In a list and in a table; none of it makes an element of its own."""
    draw = random.Random(1)
    texts = [
        *("<script>alert(1)</script>", "<b onclick=x()>", "&lt;b&gt; &amp;", "<http://a.b> $x$", "__mac__", "_x_ y_"),
        *("*a* **b**", "[a](javascript:x) ![i](x.png)", "a|b`c`", "~~no~~ \\_ \\", "sky130_fd_sc_hd__tt_025C_1v80"),
    ]
    drawn = ("".join(draw.choices("ab_*[]()<>&|`~\\!$ #-+.;:1", k=12)).strip() or "a" for _ in range(3000))
    for text in (*texts, *drawn):
        line = " ".join(text.split())
        for markdown, known in (
            (f"- of {escaped(text)}.", {"ul", "li"}),
            (table(["of"], [[f"of {text}."]]), {"table", "thead", "tbody", "tr", "th", "td"}),
        ):
            page = shown(markdown)
            assert f"of {line}." in page.text, text
            assert {*page.tags} <= known, text


def test_names_of_cells_stay_readable() -> None:
    assert escaped("sky130_fd_sc_hd__tt_025C_1v80") == "sky130_fd_sc_hd__tt_025C_1v80"
    assert escaped(Marked("**ours**")) == "**ours**"


@pytest.mark.parametrize("text", ["plain", "a ``` b", "`" * 20 + "\n~~~", "<script>"])
def test_logs_stay_within_their_fence(text: str) -> None:
    page = shown(f"{fenced(text)}\n\nafter")
    assert page.text == f"{text}\n\nafter\n"
    assert {*page.tags} == {"pre", "code", "p"}


def test_lines_of_tools_have_no_html() -> None:
    assert not {"script", "b"} & {*shown(f"- {inert('ERROR: `<script>` <b>')}").tags}
