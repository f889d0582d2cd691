"""Text as one HTML page that needs nothing else: no network, no other file."""

import html
import importlib.resources
import re

from markdown_it import MarkdownIt


def render(text: str) -> str:
    """Markdown as HTML; wide tables scroll by themselves."""
    body: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return re.sub(r"<table>.*?</table>", lambda match: f'<div class="wide">{match[0]}</div>', body, flags=re.DOTALL)


def page(title: str, body: str) -> str:
    """A page of rendered text: its headings of the second order become a list, and a table's headings sort it."""
    text = importlib.resources.files("openmxu.pages").joinpath("page.html").read_text(encoding="utf-8")
    return text.replace("<!-- title -->", html.escape(title)).replace("<!-- body -->", body)
