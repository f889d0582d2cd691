"""The tools that make a bitstream: YoWASP's, which come from PyPI and run wherever Python does.

They are run by :mod:`openmxu.yosys.yowasp`.
"""

from collections.abc import Sequence
from importlib.metadata import version

from openmxu.runtime.extras import install
from openmxu.yosys import yowasp


def missing(package: str) -> OSError:
    """The error that says which package is not installed, and how to install it."""
    return OSError(f"{package} is not installed; it comes with: {install('boards')}")


def check(names: Sequence[str]) -> None:
    """Make sure that tools are installed."""
    for name in names:
        if not yowasp.is_installed(name):
            raise missing(yowasp.package(name))


def versions(names: Sequence[str]) -> dict[str, str]:
    """Package and version of each tool, and of Amaranth and its boards."""
    packages = {"amaranth", "amaranth-boards", *map(yowasp.package, names)}
    return {package: version(package) for package in sorted(packages)}
