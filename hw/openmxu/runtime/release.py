"""Which program this is: its version and, between releases, the commit that it was made from."""

import functools
import subprocess
from importlib.metadata import version
from pathlib import Path

_COMMIT = Path(__file__).parent.parent / "commit"
"""The commit of a wheel or sdist, which its build writes; a clone has none."""


@functools.cache
def release() -> str:
    """The version; between releases also the commit, as one version stands for many programs."""
    its = version("openmxu")
    return f"{its}, {commit() or 'commit unknown'}" if ".dev" in its else its


def commit() -> str:
    """The commit that this file is part of or was built from, and whether files differ from it; empty if unknown."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        # Another project's repository may have this package in it.
        subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True, check=True)
        result = subprocess.run(
            [*git, "describe", "--always", "--dirty= with changes", "--abbrev=10", "--exclude=*"],
            capture_output=True,
            check=True,
            text=True,
        )
        return f"commit {result.stdout.strip()}"
    except (OSError, subprocess.CalledProcessError):
        return _COMMIT.read_text().strip() if _COMMIT.is_file() else ""
