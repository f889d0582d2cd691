"""Sphinx configuration; warnings are errors (see the Makefile)."""

import argparse
import os
import re
import sys
from importlib.metadata import version as installed
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import _MockObject
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).parent))

import records  # of this folder

from openmxu.cli.frame import make_parser, parsers

project = "OpenMXU"
author = "The OpenMXU authors"
copyright = author  # noqa: A001  # the name Sphinx wants
version = release = installed("openmxu")

extensions = [
    "myst_parser",  # pages are Markdown
    "sphinx.ext.autodoc",  # the reference comes from docstrings
    "sphinx.ext.napoleon",  # which are in numpy's style
    "sphinx.ext.doctest",  # and whose examples are run
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"OpenMXU {version}"
html_static_path = ["_static"]
html_extra_path = ["live.html", "accelerator.html"]  # in which the netlists run
html_css_files = ["columns.css"]
# Prompts and output are not copied.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_mock_imports = ["torch", "jax", "onnx", "onnxruntime"]  # large, and not needed for docstrings
_MockObject.__setitem__ = lambda *_: None  # openmxu_sim.jax registers rules in mappings of JAX
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_google_docstring = False
# Amaranth components list ports under "Members"; it reads best as another table of parameters.
napoleon_custom_sections = [("Members", "params_style")]
napoleon_use_rtype = False
doctest_test_doctest_blocks = "default"
# The code of tutorials is in files of its own, which belong to no package.
doctest_global_setup = f"import sys; sys.path.insert(0, {str(Path(__file__).parent / 'examples')!r})"


class CommandHelp(SphinxDirective):
    """``.. command-help::``: the help texts of all commands, so that the page is never old."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each command."""
        os.environ["COLUMNS"] = "100"  # the width of help texts
        return [_help(parser) for parser in parsers(make_parser())]


def _help(parser: argparse.ArgumentParser) -> nodes.section:
    section = nodes.section(ids=[parser.prog.replace(" ", "-")])
    section += nodes.title(text=parser.prog)
    section += nodes.literal_block(text=parser.format_help(), language="none")
    return section


def keep_text(_app: Sphinx, what: str, _name: str, _object: object, _options: object, lines: list[str]) -> None:
    """Keep the text under a field: napoleon would take what stands before a colon in its first line as a type."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]  # an empty comment


def leave_out(_app: Sphinx, _what: str, name: str, _member: object, skip: bool, _options: object) -> bool | None:
    """Leave out the ports of components, which are under "Members", and what is Amaranth's."""
    return True if skip or re.fullmatch(r"elaborate|CUTS|[io](_\w+)?", name) else None


def read_page(_app: Sphinx, name: str, source: list[str]) -> None:
    """Show the whole of a long record, and comments ``<!-- sphinx ... -->``; drop lines that only a forge shows."""
    page = f"{name.removeprefix('reference/')}.md"
    if page in records.LONG:
        source[0] = records.written(page, whole=True)
    text = re.sub(r"^<!-- sphinx\n((?:.*\n)*?)-->$", r"\1", source[0], flags=re.MULTILINE)
    source[0] = re.sub(r"^.* <!-- forge -->$", "", text, flags=re.MULTILINE)


def setup(app: Sphinx) -> None:
    """Register the directive, and what comes before MyST and napoleon."""
    app.connect("source-read", read_page)
    app.connect("autodoc-skip-member", leave_out)
    app.connect("autodoc-process-docstring", keep_text, priority=100)
    app.add_directive("command-help", CommandHelp)
