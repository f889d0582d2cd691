"""Waveforms that simulators write, whole or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openmxu.runtime import process
from openmxu.runtime.files import writing


@contextmanager
def waveform(path: Path) -> Iterator[Path]:
    """Yield a file for a simulator to write, which becomes ``path`` if the block ends without an exception."""
    with writing(path) as target, process.workspace() as folder:
        made = folder / "wave.vcd"
        yield made
        with made.open("rb") as content:
            shutil.copyfileobj(content, target)
