"""Hook of hatchling: a wheel or sdist has the commit that it is built from; one without git keeps that of its sdist."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FILE = "openmxu/commit"


class CommitHook(BuildHookInterface):
    """Adds the file that ``openmxu.runtime.extras`` reads."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the commit, unless the sources stay where git is."""
        describe = ["git", "describe", "--always", "--dirty= with changes", "--abbrev=10", "--exclude=*"]
        if version == "editable" or not Path(self.root, ".git").exists():
            return
        try:
            done = subprocess.run(describe, cwd=self.root, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):  # no git, no commit, or another user's clone
            return
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name, "commit")
        file.write_text(f"commit {done.stdout}")
        build_data["force_include"][str(file)] = _FILE if self.target_name == "wheel" else f"hw/{_FILE}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was written."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
