"""Sphinx configuration; warnings are errors (see the Makefile)."""

import os
import subprocess
import sys
from importlib.metadata import version as installed
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from openmxu_sim import speed
from openmxu_sim.studies import accuracy, roofline
from openmxu_sim.verify.checks import FAILED
from openmxu_sim.verify.report import Evidence, faults_to_markdown, to_markdown

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
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "OpenMXU"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}
napoleon_google_docstring = False
# Amaranth components list ports under "Members"; it reads best as another table of parameters.
napoleon_custom_sections = [("Members", "params_style")]
napoleon_use_rtype = False
doctest_test_doctest_blocks = "default"


class CommandHelp(SphinxDirective):
    """``.. command-help:: COMMAND``: what the command prints about itself, so that the page is never old."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Run the command with ``--help``."""
        command = self.arguments[0]
        done = subprocess.run(
            [sys.executable, "-m", *command.split(), "--help"], capture_output=True, text=True, check=True,
            env=os.environ | {"COLUMNS": "100"},
        )
        section = nodes.section(ids=[command.replace(" ", "-")])
        section += nodes.title(text=command)
        section += nodes.literal_block(text=done.stdout, language="none")
        return [section]


def insert_record(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put records of commands, and what is derived, as tables, in place of ``RECORD`` on their pages."""
    if docname == "reference/accuracy":
        record = Path(app.srcdir, "reference", "accuracy.json")
        app.env.note_dependency(str(record), docname=docname)
        source[0] = source[0].replace("RECORD", accuracy.to_markdown(accuracy.Accuracy.of_json(record.read_text())))
    if docname == "reference/roofline":
        source[0] = source[0].replace("RECORD", roofline.to_markdown(roofline.roofline(roofline.Machine())))
    if docname == "reference/speed":
        record = Path(app.srcdir, "reference", "speed.json")
        app.env.note_dependency(str(record), docname=docname)
        source[0] = source[0].replace("RECORD", speed.to_markdown(speed.Report.of_json(record.read_text())))
    if docname == "reference/verification":
        record = Path(app.srcdir, "reference", "verification.json")
        app.env.note_dependency(str(record), docname=docname)
        evidence = Evidence.of_json(record.read_text())
        if not evidence.thorough or evidence.count(FAILED):
            raise ValueError(f"{record.name} must be the record of a thorough run without failures: make verify")
        source[0] = source[0].replace("RECORD", to_markdown(evidence))
    if docname == "reference/promises":
        record = Path(app.srcdir, "reference", "faults.json")
        app.env.note_dependency(str(record), docname=docname)
        evidence = Evidence.of_json(record.read_text())
        if evidence.count(FAILED):
            raise ValueError(f"{record.name} must be the record of a campaign without failures: make faults")
        source[0] = source[0].replace("RECORD", faults_to_markdown(evidence))


def setup(app: Sphinx) -> None:
    """Register the directive and the records."""
    app.connect("source-read", insert_record)
    app.add_directive("command-help", CommandHelp)
