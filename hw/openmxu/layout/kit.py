"""The files of a process design kit, which users name: each is known by its name and its SHA-256 digest.

Each place that carries a kit has its files in other folders, so they are looked for below the folders that are named.
"""

import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Files = Mapping[str, Mapping[str, str]]
"""For each role the ``name`` and the ``sha256`` of a file, unpacked, or of a folder; see :func:`digest`. In the name
``*`` stands for anything."""


class Buffer(NamedTuple):
    """A buffer of the library, and its pins."""

    cell: str
    input: str
    output: str


@dataclass(frozen=True)
class Kit:
    """What a technology's users must have, and the cells of its library that are no logic."""

    files: Files
    """What is needed for layouts."""
    decks: Files
    """What is needed for checks."""
    unused: Sequence[str]
    """Cells that no netlist has."""
    tie_low: Sequence[str]
    """A cell and its pin that holds a constant 0."""
    tie_high: Sequence[str]
    buffer: Buffer
    clock_buffer: Buffer
    clock_pin: str
    """The pin of flip-flops that is a clock."""
    fill: Sequence[str]
    """Cells without pins that fill gaps, the widest first; the last is one site wide."""


def read_kit(data: Mapping[str, Any]) -> Kit:
    """The kit in a technology's document."""
    buffers = {name: Buffer(*data["cells"][name]) for name in ("buffer", "clock_buffer")}
    return Kit(data["files"], data["decks"], **data["cells"] | buffers)


def find_files(roots: Sequence[Path], wanted: Files) -> dict[str, Path]:
    """The kit's files and folders, by role, of those below folders, or of these files themselves."""
    below = [path for root in roots for path in ([root] if root.is_file() else sorted(root.rglob("*")))]
    found = {}
    for role, file in wanted.items():
        candidates = [path for path in below if path.match(file["name"])]
        matching = [path for path in candidates if digest(path) == file["sha256"]]
        if not matching:
            problem = f"{candidates[0]} is another version" if candidates else "there is none"
            where = ", ".join(map(str, roots))
            raise ValueError(f"pdk must hold {file['name']} with SHA-256 {file['sha256']} below {where}: {problem}")
        found[role] = matching[0].absolute()
    return found


def digest(path: Path) -> str:
    """SHA-256 of a file, unpacked where it is gzip's, in hex; of a folder, that of its files' names and digests."""
    if path.is_dir():
        files = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
        content = "".join(f"{digest(path / file)} {file}\n" for file in files).encode()
    else:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    return hashlib.sha256(content).hexdigest()
