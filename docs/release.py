"""Checks that a release is ready, and tags it: ``python docs/release.py [--tag]``; see docs/how-to/release.md."""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

_TOP = Path(__file__).parent.parent

_OLD = re.compile(r"^The unit has changed since this was measured|^Moved since the headline page", re.MULTILINE)
"""What a page says of a record that is older than the unit."""


def check(top: Path, version: str, today: date) -> Iterator[str]:
    """What keeps a version from being released, a line each.

    Parameters
    ----------
    top
        The project's folder, a git repository.
    version
        As of ``pyproject.toml``.
    today
        The day of the release, in UTC.
    """
    if _git(top, "status", "--porcelain"):
        yield "git: all changes must be committed"
    if ".dev" in version:
        yield f"pyproject.toml: the version must be a release's, not {version}"
        return
    if _git(top, "tag", "--list", f"v{version}"):
        yield f"git: the tag v{version} must not exist yet; a new version goes into pyproject.toml"
    heading, body = _newest(top)
    if heading.lower() == "[unreleased]" and body:
        yield f"CHANGELOG.md: entries must stand under [{version}] - {today}, not under [Unreleased]"
    elif notes(top, version) is None or f"[{version}] - {today}" not in (top / "CHANGELOG.md").read_text():
        yield f"CHANGELOG.md: a section must be called [{version}] - {today}"
    citation = (top / "CITATION.cff").read_text()
    for line in (f"version: {version}", f"date-released: {today}"):
        if not re.search(rf"^{re.escape(line)}$", citation, re.MULTILINE):
            yield f"CITATION.cff: must have the line {line}"
    for page in [top / "README.md", *sorted((top / "docs/reference").rglob("*.md"))]:
        if _OLD.search(page.read_text()):
            yield f"{page.relative_to(top)}: its record must be of this unit; the page names the command"


def notes(top: Path, version: str) -> str | None:
    """What the changelog says of a version, without its heading; ``None`` if it says nothing."""
    for heading, body in _sections(top):
        if heading.startswith(f"[{version}]"):
            return body
    return None


def _newest(top: Path) -> tuple[str, str]:
    """The first section that says something, else the first."""
    sections = _sections(top)
    return next((section for section in sections if section[1]), sections[0])


def _sections(top: Path) -> list[tuple[str, str]]:
    """Headings of the changelog, and what stands below them."""
    parts = re.split(r"^## (.+)$", (top / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    return [(heading, body.strip()) for heading, body in zip(parts[::2], parts[1::2], strict=True)]


def _git(top: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=top, capture_output=True, text=True, check=True).stdout.strip()


def main(arguments: list[str] | None = None, top: Path = _TOP) -> int:
    """Print what is missing, or tag; the exit code is 2 if anything is missing."""
    parser = argparse.ArgumentParser(description="Check that a release is ready, and tag it.")
    parser.add_argument("--tag", action="store_true", help="make the tag, with the changelog's section as its text")
    wants_tag = parser.parse_args(arguments).tag
    version = tomllib.loads((top / "pyproject.toml").read_text())["project"]["version"]
    missing = list(check(top, version, datetime.now(UTC).date()))
    for line in missing:
        print(line, file=sys.stderr)
    if missing:
        return 2
    if wants_tag:
        text = f"OpenMXU {version}\n\n{notes(top, version)}\n"
        _git(top, "tag", "--annotate", "--cleanup", "verbatim", f"v{version}", "--message", text)
        print(f"tagged v{version}; git push origin v{version} publishes it")
    else:
        print(f"{version} is ready")
    return 0


if __name__ == "__main__":
    sys.exit(main())
