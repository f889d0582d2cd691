"""Pages as a forge shows them, as CommonMark with tables: nothing of Sphinx is left, and each link leads somewhere."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

_ROOT = Path(__file__).resolve().parent.parent
_DOCS = sorted(page for page in (_ROOT / "docs").rglob("*.md") if "_build" not in page.parts)
PAGES = [_ROOT / "README.md", _ROOT / "CONTRIBUTING.md", *_DOCS]

_READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_SESSIONS = "{doctest}"
"""The one kind of block whose text is the same on a forge: a session in Python."""


def _tokens(text: str) -> Iterator[Token]:
    for token in _READER.parse(text):
        yield token
        yield from token.children or ()


def _anchors(text: str) -> set[str]:
    """Anchors of headings, as forges make them: of equal ones the second ends in ``-1``."""
    found: dict[str, int] = {}
    tokens = _READER.parse(text)
    for heading, inline in pairwise(tokens):
        if heading.type == "heading_open":
            words = "".join(each.content for each in inline.children or () if each.type in ("text", "code_inline"))
            name = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
            found[name] = found.get(name, -1) + 1
    return {f"{name}-{number}" if number else name for name, last in found.items() for number in range(last + 1)}


def _links(tokens: list[Token]) -> Iterator[tuple[str, str]]:
    """Target and text of each link and image; links in HTML, too."""
    for at, token in enumerate(tokens):
        if token.type == "link_open":
            end = next(number for number in range(at, len(tokens)) if tokens[number].type == "link_close")
            yield str(token.attrs["href"]), "".join(each.content for each in tokens[at + 1 : end])
        elif token.type == "image":
            yield str(token.attrs["src"]), token.content
        elif token.type.startswith("html"):
            yield from ((target, "HTML") for target in re.findall(r'\b(?:href|src|data)="([^"]*)"', _shown(token)))


def _shown(token: Token) -> str:
    """The HTML of a token without comments."""
    return re.sub(r"<!--.*?-->", "", token.content, flags=re.DOTALL)


def faults(page: Path, text: str) -> Iterator[str]:
    """Mistakes of a page where Sphinx is absent."""
    tokens = list(_tokens(text))
    if text.startswith("---"):
        yield "front matter"
    for token in tokens:
        if token.type == "fence" and token.info.startswith("{") and token.info.strip() != _SESSIONS:
            yield f"directive {token.info}"
        if token.type == "text" and re.search(r"\{\w+\}$|^:::", token.content):
            yield f"role or directive {token.content}"
        if token.type.startswith("html") and re.search("<(iframe|script|style|object|embed)", _shown(token)):
            yield f"HTML that forges remove: {token.content}"
    for target, words in _links(tokens):
        if not words.strip():
            yield f"no text: {target}"
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if re.match("https?:", target):
            continue
        if (path and not file.exists()) or not file.resolve().is_relative_to(_ROOT):
            yield f"no file: {target}"
        elif anchor and anchor not in _anchors(text if file == page else file.read_text()):
            yield f"no heading: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_a_forge_shows_the_page(page: Path) -> None:
    assert list(faults(page, page.read_text())) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[](numerics.md)", "no text: numerics.md"),
        ("![](../images/array.svg)", "no text: ../images/array.svg"),
        ("[x](nowhere.md)", "no file: nowhere.md"),
        ("![x](nowhere.png)", "no file: nowhere.png"),
        ('<a href="../nowhere.html">x</a>', "no file: ../nowhere.html"),
        ("[x](numerics.md#nowhere)", "no heading: numerics.md#nowhere"),
        ("# Here\n\n[x](#there)", "no heading: #there"),
        ("[x](/etc/hosts)", "no file: /etc/hosts"),
        ("```{toctree}\nnumerics\n```", "directive {toctree}"),
        ("```{eval-rst}\n.. automodule:: x\n```", "directive {eval-rst}"),
        ("{ref}`x`", "role or directive {ref}"),
        (":::{note}\nx\n:::", "role or directive :::{note}"),
        ('<iframe src="../live.html"></iframe>', 'HTML that forges remove: <iframe src="../live.html"></iframe>'),
        ("---\nhide-toc: true\n---\n", "front matter"),
        ("[x](https://example.org) [Numerics](numerics.md) [live](../live.html)", ""),
        ("# Same\n\n# Same\n\n[a](#same) [b](#same-1)\n\n```{doctest}\n>>> 1\n```", ""),
        ('<!-- sphinx\n```{raw} html\n<iframe src="nowhere"></iframe>\n```\n-->', ""),
    ],
)
def test_mistakes_are_seen(text: str, fault: str) -> None:
    assert list(faults(_ROOT / "docs/explanation/page.md", text))[:1] == ([fault] if fault else [])
