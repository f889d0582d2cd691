"""Packages that only some commands need, and how to install them."""

import re
from importlib import import_module
from importlib.metadata import requires
from importlib.util import find_spec
from types import ModuleType

_DISTRIBUTIONS = {"sklearn": "scikit-learn", "z3": "z3-solver", "markdown_it": "markdown-it-py"}
"""Distribution that brings a module, where it has another name."""


def install(extra: str) -> str:
    """The command that adds an extra to this installation, a clone's or a wheel's.

    >>> from openmxu.runtime.extras import install
    >>> install("boards")
    "pip install 'openmxu[boards]'"
    """
    return f"pip install 'openmxu[{extra}]'"


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
    """A module of ``openmxu_studies``, which is in no wheel; a :exc:`ValueError` names the option that needs it."""
    if find_spec("openmxu_studies") is None:
        need = "OpenMXU's repository, where docs/studies is: clone it, and run make setup-models"
        raise ValueError(f"{option} needs {need}")
    return import_module(f"openmxu_studies.{module}")
