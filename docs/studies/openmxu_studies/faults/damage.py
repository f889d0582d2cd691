"""Entries of the cache, damaged in every way: a look-up returns the stored content, or it is made again."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from openmxu.runtime import cache
from openmxu_studies.faults import LOST, SURVIVED, WRONG


def trial(seed: int, folder: Path) -> tuple[str, str]:
    """Keep a few entries, damage one of them, and ask for all of them twice."""
    random = Random(f"entries {seed}")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    cache._kept.clear()
    wanted = {}
    for number in range(random.randrange(1, 5)):
        kind, key = random.choice(cache.KINDS), cache.key(str(seed), str(number))
        wanted[kind, key] = random.randbytes(random.choice((0, 1, 31, 32, 33, 500, 5000)))
        cache.keep(kind, key, wanted[kind, key])
    paths = [cache.directory() / kind / key for kind, key in wanted]
    done = damage_entry(random.choice(paths), paths, random)
    for _ in range(2):
        for (kind, key), content in wanted.items():
            try:
                entry = cache.fetch(kind, key, lambda content=content: content)  # type: ignore[misc]
            except Exception as error:
                return LOST, f"{done}: {error!r}"
            if entry != content:
                return WRONG, done
    return SURVIVED, done


def damage_entry(path: Path, others: list[Path], random: Random) -> str:
    """Damage a file of the cache, or put something else in its place; returns a description."""
    content, other = path.read_bytes(), random.choice(others)

    def swap() -> None:
        theirs = other.read_bytes()
        other.write_bytes(content)
        path.write_bytes(theirs)

    def become(make: Callable[[], object], place: Path = path) -> None:
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        make()

    kinds: dict[str, Callable[[], object]] = {
        "content": lambda: path.write_bytes(_damaged(content, random)),
        "swapped": swap,
        "deleted": path.unlink,
        "folder": lambda: become(lambda: (path / "inside").mkdir(parents=True)),
        "pipe": lambda: become(lambda: os.mkfifo(path)),
        "link to another": lambda: become(lambda: path.symlink_to(other)),
        "link to nothing": lambda: become(lambda: path.symlink_to("/no/such/file")),
        "part left": lambda: path.with_suffix(".part").write_bytes(_damaged(content, random)),
        "part is a folder": lambda: path.with_suffix(".part").mkdir(),
        "not readable": lambda: path.chmod(0),
        "folder of its kind a file": lambda: become(path.parent.touch, path.parent),
        "cache writable by others": lambda: path.parents[1].chmod(0o777),
    }
    name = random.choice([*kinds, *["content", "swapped"] * 6])
    kinds[name]()
    return name


def _damaged(data: bytes, random: Random) -> bytes:
    if not data:
        return random.randbytes(random.randrange(1, 64))
    start = random.randrange(len(data))
    flipped = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 8))):
        flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
    end, other = random.randbytes(start % 50 + 1), random.randbytes(len(data))
    kinds = (flipped, flipped, data[:start], data[start:], data + end, b"", bytes(len(data)), other, data * 2)
    return bytes(random.choice(kinds))
