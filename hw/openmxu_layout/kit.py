"""The files of a process design kit, which users name: each is known by its name and its SHA-256 digest.

Each place that carries a kit has its files in other folders, so they are looked for below the folders that are named.
What is used is a copy of the bytes that have the digest: a file may change during a run, and a deck of KLayout reads
those beside it, whatever digest they have.
"""

import hashlib
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from openmxu.runtime.files import read_unpacked

Files = Mapping[str, Mapping[str, Any]]
"""For each role the ``name`` and the ``sha256`` of a file, unpacked, or of a folder; see :func:`digest`. In the name
``*`` stands for anything. A deck of design rules also has the number of its ``rules``."""

Contents = Mapping[str, bytes]
"""The files of a folder, by name; a file alone has the name ``""``."""

_MOST = 1 << 28
"""The largest file or folder, in bytes, unpacked: many times the largest that is known."""


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


def copy_files(roots: Sequence[Path], wanted: Files, into: Path) -> dict[str, Path]:
    """Copies of the kit's files and folders, by role, of those below folders, or of these files themselves.

    Each is copied from the bytes that have the digest, unpacked, under the name that the kit gives it.
    """
    below = [path for root in roots for path in ([root] if root.is_file() else sorted(root.rglob("*")))]
    copies = {}
    for role, file in wanted.items():
        copies[role] = into / file["name"].replace("*", "")
        for name, content in _find(roots, below, file).items():
            copy = copies[role] / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
    return copies


def digest(files: Contents) -> str:
    """SHA-256 in hex of a file; of a folder, that of its files' names and digests."""
    content = files.get("")
    if content is None:
        content = "".join(f"{hashlib.sha256(files[name]).hexdigest()} {name}\n" for name in sorted(files)).encode()
    return hashlib.sha256(content).hexdigest()


def _find(roots: Sequence[Path], below: Sequence[Path], file: Mapping[str, Any]) -> Contents:
    """The content of the file or folder that has the digest."""
    problems = []
    for path in below:
        if path.match(file["name"]):
            try:
                files = read_contents(path)
            except (OSError, ValueError) as error:
                problems.append(str(error))
                continue
            if digest(files) == file["sha256"]:
                return files
            problems.append(f"{path} is another version")
    where, problem = ", ".join(map(str, roots)), [*problems, "there is none"][0]
    raise ValueError(f"pdk must hold {file['name']} with SHA-256 {file['sha256']} below {where}: {problem}")


def read_contents(path: Path) -> Contents:
    """The content of a plain file, unpacked where it is gzip's, or of the plain files in a folder."""
    if not path.is_dir():
        return {"": _read(path, _MOST)}
    files: dict[str, bytes] = {}
    left = _MOST
    for each in sorted(each for each in path.rglob("*") if each.is_file()):
        name = each.relative_to(path).as_posix()
        if not name.isprintable():  # in a digest's text a line's end would make two files of one
            raise ValueError(f"{path} has a file whose name cannot be printed, {name!r}")
        files[name] = _read(each, left)
        left -= len(files[name])
    return files


def _read(path: Path, most: int) -> bytes:
    """The content of a plain file of at most so many bytes, unpacked."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path} is no plain file")
    return read_unpacked(path, most)
