"""The version and commit of this installation, packages that only some commands need, and how to install them."""

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import distribution, requires, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

_COMMIT = Path(__file__).parent.parent / "commit"
"""The commit of a wheel or sdist, which its build writes; a clone has none."""

_DISTRIBUTIONS = {"sklearn": "scikit-learn", "z3": "z3-solver", "markdown_it": "markdown-it-py"}
"""Distribution that brings a module, where it has another name."""


def install(extra: str) -> str:
    """The command that adds an extra to this installation, of a clone or of a wheel's file: no index has the package.

    >>> from openmxu.runtime.extras import install
    >>> install("boards").endswith("[boards]'")
    True
    """
    beside = Path(sys.executable).parent
    pip = "pip" if Path(shutil.which("pip") or "").parent == beside else shlex.join([sys.executable, "-m", "pip"])
    here = distribution("openmxu")
    origin = json.loads(here.read_text("direct_url.json") or "{}")
    place = unquote(urlsplit(origin.get("url", "")).path) or f"./openmxu-{here.version}-py3-none-any.whl"
    with suppress(OSError):  # it was installed from a file that is gone, or the current folder is gone
        if os.path.isdir(place) and os.path.samefile(place, os.curdir):
            place = os.curdir
    editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
    return f"{pip} install {editable}{shlex.quote(f'{place}[{extra}]')}"


def need(what: str, packages: Iterable[str], extra: str) -> None:
    """Raise :exc:`OSError` that names all packages that are missing, and their extra."""
    if missing := [package for package in packages if find_spec(package) is None]:
        raise OSError(f"{what} needs {', '.join(missing)}, not installed here: {install(extra)}")


def extra_of(module: str) -> str:
    """The first extra that brings a module; ``all`` if none does.

    >>> from openmxu.runtime.extras import extra_of
    >>> extra_of("ziglang"), extra_of("sklearn"), extra_of("wombat")
    ('zig', 'demo', 'all')
    """
    package = module.partition(".")[0]
    wanted = _DISTRIBUTIONS.get(package, package).replace("_", "-").lower()
    for line in requires("openmxu") or ():
        match = re.fullmatch(r"([\w.-]+).*;.*\bextra *== *['\"](\w+)['\"].*", line)
        if match is not None and match[1].replace("_", "-").lower() == wanted and match[2] != "all":
            return match[2]
    return "all"


def study(module: str, option: str) -> ModuleType:
    """A module of ``openmxu_studies``."""
    return _of_repository("openmxu_studies", module, option, "docs/studies", "setup-models")


def evidence(module: str, option: str) -> ModuleType:
    """A module of ``openmxu_evidence``."""
    return _of_repository("openmxu_evidence", module, option, "tests/evidence", "setup")


def _of_repository(package: str, module: str, option: str, folder: str, target: str) -> ModuleType:
    """A module that is in no wheel; a :exc:`ValueError` names the option that needs it."""
    if find_spec(package) is None:
        raise ValueError(f"{option} needs OpenMXU's repository, where {folder} is: clone it, and run make {target}")
    return import_module(f"{package}.{module}")


@functools.cache
def release() -> str:
    """The version; between releases also the commit, as one version stands for many programs."""
    its = version("openmxu")
    return f"{its}, {commit() or 'commit unknown'}" if ".dev" in its else its


def commit() -> str:
    """The commit that this file is part of or was built from, and whether files differ from it; empty if unknown."""
    git = ["git", "--no-optional-locks", "-C", str(Path(__file__).parent)]
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
