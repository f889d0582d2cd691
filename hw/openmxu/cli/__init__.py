"""The command line's frame: its process, its signals, its terminal, and what its commands have in common."""

from warnings import warn


def __getattr__(name: str) -> object:
    """A name of :mod:`openmxu.cli.frame`, from when that was this module: for one release."""
    from openmxu.cli import frame  # noqa: PLC0415  # a while of imports, and signals come first

    if name not in frame.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn(f"{__name__}.{name} is in openmxu.cli.frame now; the old path goes with 0.3", DeprecationWarning, stacklevel=2)
    value: object = getattr(frame, name)
    return value
