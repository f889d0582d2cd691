"""The command line's frame: its process, its signals, its terminal, and the common parts of its commands."""

from importlib import import_module
from warnings import warn

_FRAME = {
    "Section",
    "add_command",
    "bar",
    "integer",
    "interval",
    "main",
    "make_parser",
    "number",
    "subcommands",
    "tell",
}
"""Former names of this module, now in :mod:`openmxu.cli.frame`; imports of modules also look here and must fail."""


def __getattr__(name: str) -> object:
    """A name of :mod:`openmxu.cli.frame`, for one release."""
    if name not in _FRAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn(f"{__name__}.{name} is in openmxu.cli.frame now; the old path goes with 0.3", DeprecationWarning, stacklevel=2)
    value: object = getattr(import_module("openmxu.cli.frame"), name)
    return value
