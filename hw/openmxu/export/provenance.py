"""The origin of a record: version and commit of this project, and a digest of its hardware."""

import functools
import hashlib
import subprocess
from importlib.metadata import version
from pathlib import Path

from openmxu.catalog import build
from openmxu.export.verilog import to_rtlil

NETLIST = "netlist of mxu_2x2"
"""Key of the unit's digest in :func:`provenance`."""


@functools.cache
def provenance() -> dict[str, str]:
    """Version and commit of this project, and a digest of a small unit, which has all parts of a large one.

    Two records of the same digest were measured on the same hardware. The commit is left out outside of a clone.
    """
    rtlil = to_rtlil(build("mxu_2x2"), name="mxu_2x2")
    return {
        "OpenMXU": ", ".join([version("openmxu"), *_commit()]),
        NETLIST: hashlib.sha256(rtlil.encode()).hexdigest()[:12],
    }


def _commit() -> list[str]:
    """The commit that this file is part of, and whether files differ from it."""
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
    except (OSError, subprocess.CalledProcessError):
        return []
    return [f"commit {result.stdout.strip()}"]
