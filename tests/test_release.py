"""docs/release.py refuses what is not ready, and tags what is."""

import importlib.util
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from .conftest import needs_git

pytestmark = needs_git

_TODAY = datetime.now(UTC).date()
_DOCS = Path(__file__).parent.parent / "docs"

_FILES = {
    "pyproject.toml": '[project]\nname = "x"\nversion = "1.2.3"\n',
    "CHANGELOG.md": f"""# Changelog

## [Unreleased]

## [1.2.3] - {_TODAY}

### Added
- A thing.

## [1.2.2] - 2020-01-01

Old.
""",
    "CITATION.cff": f"version: 1.2.3\ndate-released: {_TODAY}\n",
    "README.md": "A project.\n",
    "docs/reference/speed.md": "Fast.\n",
}


@pytest.fixture(scope="module")
def release() -> Any:
    spec = importlib.util.spec_from_file_location("release", _DOCS / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    return subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project that is ready."""
    for variable in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"):
        monkeypatch.setenv(variable, "a")
    for variable in ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(variable, "a@b.example")
    for name, text in _FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    _git(tmp_path, "init", "--quiet")
    _git(tmp_path, "add", "--all")
    _git(tmp_path, "commit", "--quiet", "--message", "all")
    return tmp_path


def test_ready(release: Any, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert release.main([], project) == 0
    assert capsys.readouterr().out == "1.2.3 is ready\n"
    assert _git(project, "tag") == ""
    assert release.main(["--tag"], project) == 0
    assert _git(project, "tag", "--list", "--format=%(contents)").rstrip() == "OpenMXU 1.2.3\n\n### Added\n- A thing."


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("CHANGELOG.md", "[1.2.3]", "[1.2.4]", f"CHANGELOG.md: a section must be called [1.2.3] - {_TODAY}"),
        ("CHANGELOG.md", str(_TODAY), "2020-02-02", f"CHANGELOG.md: a section must be called [1.2.3] - {_TODAY}"),
        (
            "CHANGELOG.md",
            "[Unreleased]\n",
            "[Unreleased]\n\n- More.\n",
            f"CHANGELOG.md: entries must stand under [1.2.3] - {_TODAY}, not under [Unreleased]",
        ),
        ("CITATION.cff", "version: 1.2.3", "version: 1.2.30", "CITATION.cff: must have the line version: 1.2.3"),
        ("CITATION.cff", "date-", "-", f"CITATION.cff: must have the line date-released: {_TODAY}"),
        (
            "docs/reference/speed.md",
            "Fast.",
            "The unit has changed since this was measured.",
            "docs/reference/speed.md: its record must be of this unit; the page names the command",
        ),
    ],
)
def test_messages(
    release: Any, project: Path, capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, message: str
) -> None:
    (project / name).write_text((project / name).read_text().replace(old, new))
    _git(project, "commit", "--quiet", "--all", "--message", "change")
    assert release.main(["--tag"], project) == 2
    assert capsys.readouterr().err == f"{message}\n"
    assert _git(project, "tag") == ""


def test_git(release: Any, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _git(project, "tag", "v1.2.3")
    (project / "new").touch()
    assert release.main([], project) == 2
    assert capsys.readouterr().err == (
        "git: all changes must be committed\n"
        "git: the tag v1.2.3 must not exist yet; a new version goes into pyproject.toml\n"
    )
