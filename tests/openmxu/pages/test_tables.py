"""Text of others in Markdown: shown as it is, and never markup."""

import random
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from openmxu.pages.tables import Marked, escaped, fenced, inert, table


class Page(HTMLParser):
    """The text of a page, and the tags in it."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.text, self.tags = "", set[str]()
        # HTML in the text is passed on, as many viewers do.
        self.feed(MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(markdown))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


TEXTS = [
    "<script>alert(1)</script>",
    "<b onclick=x()>",
    "__mac__",
    "_x_ y_",
    "*a* **b**",
    "[a](javascript:x) ![i](x.png)",
    "a|b`c`",
    "&lt;b&gt; &amp;",
    "~~no~~ \\_ \\",
    "<http://a.b> $x$",
    "sky130_fd_sc_hd__tt_025C_1v80",
]


def texts() -> list[str]:
    draw = random.Random(1)
    return TEXTS + ["".join(draw.choices("ab_*[]()<>&|`~\\!$ #-+.;:1", k=12)).strip() or "a" for _ in range(3000)]


def test_escaped_text_is_what_it_was() -> None:
    """In a list and in a table; none of it makes an element of its own."""
    for text in texts():
        line = " ".join(text.split())
        for markdown, known in (
            (f"- of {escaped(text)}.", {"ul", "li"}),
            (table(["of"], [[f"of {text}."]]), {"table", "thead", "tbody", "tr", "th", "td"}),
        ):
            page = Page(markdown)
            assert f"of {line}." in page.text, text
            assert page.tags <= known, text


def test_names_of_cells_stay_readable() -> None:
    assert escaped("sky130_fd_sc_hd__tt_025C_1v80") == "sky130_fd_sc_hd__tt_025C_1v80"
    assert escaped(Marked("**ours**")) == "**ours**"


@pytest.mark.parametrize("text", ["plain", "a ``` b", "`" * 20 + "\n~~~", "<script>"])
def test_logs_stay_within_their_fence(text: str) -> None:
    page = Page(f"{fenced(text)}\n\nafter")
    assert page.text == f"{text}\n\nafter\n"
    assert page.tags == {"pre", "code", "p"}


def test_lines_of_tools_have_no_html() -> None:
    assert not {"script", "b"} & Page(f"- {inert('ERROR: `<script>` <b>')}").tags
