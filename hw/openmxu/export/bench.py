"""A bench beside an exported unit: the description of the unit that it gets, and the function that writes it.

The golden model of ``openmxu_sim`` computes the expected results. Hardware imports no simulation, so the writer of
benches is found as an entry point, as commands are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

_GROUP = "openmxu.benches"
"""Group of entry points, each of which is a :class:`Bench`."""


@dataclass(frozen=True)
class Export:
    """An exported unit, and the options of its export."""

    component: Any
    """The unit, a :class:`~openmxu.unit.mxu.Mxu` or an :class:`~openmxu.unit.axi.AxiMxu`."""
    name: str
    """Name of its module; ``NAME.v`` is its file."""
    ports: str = "nested"
    clock_enable: bool = False
    """See :func:`~openmxu.export.verilog.to_verilog`."""
    command: str = ""
    """The command that writes the same files."""


@dataclass(frozen=True)
class Bench:
    """A kind of bench."""

    files: tuple[str, ...]
    """Names of its files, in which ``{name}`` stands for the name of the unit's module."""
    write: Callable[[Export], list[str]]
    """Their texts, in this order."""

    def names(self, name: str) -> list[str]:
        """Names of the files beside a unit whose module is called ``name``."""
        if "$" in name:
            raise ValueError(f"name must be without $ where files of a bench are called after it, not {name!r}")
        return [file.format(name=name) for file in self.files]


def find_bench(kind: str) -> Bench:
    """The kind of bench that is called ``kind``."""
    points = {point.name: point for point in entry_points(group=_GROUP)}
    if not points:
        raise OSError("benches are written by openmxu_sim, which is not installed")
    if kind not in points:
        raise ValueError(f"bench must be one of {', '.join(sorted(points))}, not {kind!r}")
    bench: Bench = points[kind].load()
    return bench
