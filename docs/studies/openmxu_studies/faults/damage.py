"""Random damage to a file, or to the place of a file."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random


def damage_content(data: bytes, random: Random) -> bytes:
    """Return damaged bytes."""
    if not data:
        return random.randbytes(random.randrange(1, 64))
    position = random.randrange(len(data))

    def flipped() -> bytes:
        content = bytearray(data)
        for _ in range(random.choice((1, 1, 1, 2, 8))):
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
        return bytes(content)

    kinds: list[Callable[[], bytes]] = [
        flipped,
        flipped,
        lambda: data[:position],
        lambda: data[position:],
        lambda: data + random.randbytes(position % 50 + 1),
        lambda: b"",
        lambda: bytes(len(data)),
        lambda: random.randbytes(len(data)),
        lambda: data[:position] + random.randbytes(min(16, len(data) - position)) + data[position + 16 :],
        lambda: data[:position] + data[: len(data) - position],
        lambda: data * 2,
    ]
    return random.choice(kinds)()


def damage_entry(path: Path, others: list[Path], random: Random) -> str:
    """Damage a file of the cache; returns a description."""
    entry = _Entry(path, others, random)
    kinds: dict[str, Callable[[], object]] = {
        "content": entry.write,
        "swapped": entry.swap,
        "deleted": path.unlink,
        "folder": lambda: entry.become(entry.make_folder),
        "pipe": lambda: entry.become(lambda: os.mkfifo(path)),
        "link to another": lambda: entry.become(lambda: path.symlink_to(random.choice(others))),
        "link to nothing": lambda: entry.become(lambda: path.symlink_to("/no/such/file")),
        "part left": entry.leave_part,
        "writable by others": lambda: entry.allow(path),
        "not readable": lambda: path.chmod(0),
        "folder of its kind a file": entry.make_kind_a_file,
        "cache writable by others": lambda: entry.allow(path.parents[1]),
        "part is a folder": lambda: path.with_suffix(".part").mkdir(),
    }
    if os.geteuid() == 0:
        kinds["of another user"] = lambda: entry.give_away(path)
        kinds["cache of another user"] = lambda: entry.give_away(path.parents[1])
    name = random.choice([*kinds, *["content", "swapped"] * 6])
    kinds[name]()
    return name


class _Entry:
    """A file of the cache, and damage to it that takes several steps."""

    def __init__(self, path: Path, others: list[Path], random: Random) -> None:
        self._path = path
        self._content = path.read_bytes()
        self._others = others
        self._random = random

    def write(self) -> None:
        self._path.write_bytes(damage_content(self._content, self._random))

    def leave_part(self) -> None:
        self._path.with_suffix(".part").write_bytes(damage_content(self._content, self._random))

    def swap(self) -> None:
        path, other = self._path, self._random.choice(self._others)
        if other != path:
            path.replace(path.with_suffix(".x"))
            other.replace(path)
            path.with_suffix(".x").replace(other)

    def become(self, make: Callable[[], object]) -> None:
        self._path.unlink()
        make()

    def make_folder(self) -> None:
        self._path.mkdir()
        (self._path / "inside").write_bytes(self._content)

    def make_kind_a_file(self) -> None:
        shutil.rmtree(self._path.parent)
        self._path.parent.write_bytes(b"")

    def allow(self, file: Path) -> None:
        self.write()
        file.chmod(0o777)

    def give_away(self, file: Path) -> None:
        self.write()
        os.chown(file, 12345, 12345)
