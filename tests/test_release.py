"""docs/release.py refuses what is not ready, and tags what is."""

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from .conftest import load_file, needs_git, ran

pytestmark = needs_git

Capture = pytest.CaptureFixture[str]
_TODAY = "2026-01-31"
_SECTION = f"[1.2.3] - {_TODAY}"
_OLD = "The unit has changed since this was measured."

_FILES = {
    "pyproject.toml": '[project]\nname = "x"\nversion = "1.2.3"\n',
    "CHANGELOG.md": f"# Changelog\n\n## [Unreleased]\n\n## {_SECTION}\n\n### Added\n- A thing.\n\n"
    "## [1.2.2] - 2020-01-01\n\nOld.\n",
    "CITATION.cff": f"version: 1.2.3\ndate-released: {_TODAY}\n",
    "README.md": "A project.\n",
    "docs/reference/speed.md": "Fast.\n",
}

release = load_file(Path(__file__).parent.parent / "docs/release.py")
release.datetime = SimpleNamespace(now=lambda _: datetime.fromisoformat(_TODAY))  # the day does not end while tests run


def _git(folder: Path, *arguments: str) -> str:
    return ran(["git", *arguments], cwd=folder, check=True).stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "a")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@b.example")
    for name, text in _FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for arguments in ("init --quiet", "add --all", "commit --quiet --message all"):
        _git(tmp_path, *arguments.split())
    return tmp_path


def test_ready(project: Path, capsys: Capture) -> None:
    assert release.main([], project) == 0
    assert capsys.readouterr().out == "1.2.3 is ready\n"
    assert _git(project, "tag") == ""
    assert release.main(["--tag"], project) == 0
    assert _git(project, "tag", "--list", "--format=%(contents)").rstrip() == "OpenMXU 1.2.3\n\n### Added\n- A thing."


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("CHANGELOG.md", "[1.2.3]", "[1.2.4]", f"a section must be called {_SECTION}"),
        ("CHANGELOG.md", _TODAY, "2020-02-02", f"a section must be called {_SECTION}"),
        ("CHANGELOG.md", "ed]\n", "ed]\n\n- More.\n", f"entries must stand under {_SECTION}, not under [Unreleased]"),
        ("pyproject.toml", "1.2.3", "1.2.3.dev0", "the version must be a release's, not 1.2.3.dev0"),
        ("CITATION.cff", "version: 1.2.3", "version: 1.2.30", "must have the line version: 1.2.3"),
        ("CITATION.cff", "date-", "-", f"must have the line date-released: {_TODAY}"),
        ("docs/reference/speed.md", "Fast.", _OLD, "its record must be of this unit; the page names the command"),
    ],
)
def test_messages(project: Path, capsys: Capture, name: str, old: str, new: str, message: str) -> None:
    (project / name).write_text((project / name).read_text().replace(old, new))
    _git(project, "commit", "--quiet", "--all", "--message", "change")
    assert release.main(["--tag"], project) == 2
    assert capsys.readouterr().err == f"{name}: {message}\n"
    assert _git(project, "tag") == ""


def test_git(project: Path, capsys: Capture) -> None:
    _git(project, "tag", "v1.2.3")
    (project / "new").touch()
    assert release.main([], project) == 2
    assert capsys.readouterr().err == (
        "git: all changes must be committed\n"
        "git: the tag v1.2.3 must not exist yet; a new version goes into pyproject.toml\n"
    )
