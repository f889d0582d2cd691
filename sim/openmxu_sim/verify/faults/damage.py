"""What can happen to a file or to what has its name, drawn by chance."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

__all__ = ["damage_content", "damage_entry"]


def damage_content(data: bytes, random: Random) -> bytes:
    """Bytes with something wrong."""
    if not data:
        return random.randbytes(random.randrange(1, 64))
    place = random.randrange(len(data))

    def flipped() -> bytes:
        found = bytearray(data)
        for _ in range(random.choice((1, 1, 1, 2, 8))):
            found[random.randrange(len(found))] ^= 1 << random.randrange(8)
        return bytes(found)

    kinds: list[Callable[[], bytes]] = [
        flipped,
        flipped,
        lambda: data[:place],
        lambda: data[place:],
        lambda: data + random.randbytes(place % 50 + 1),
        lambda: b"",
        lambda: bytes(len(data)),
        lambda: random.randbytes(len(data)),
        lambda: data[:place] + random.randbytes(min(16, len(data) - place)) + data[place + 16 :],
        lambda: data[:place] + data[: len(data) - place],
        lambda: data * 2,
    ]
    return random.choice(kinds)()


def damage_entry(path: Path, others: list[Path], random: Random) -> str:
    """Do something to a file of the cache, and say what."""
    content = path.read_bytes()

    def write() -> None:
        path.write_bytes(damage_content(content, random))

    def swap() -> None:
        other = random.choice(others)
        if other != path:
            path.replace(path.with_suffix(".x"))
            other.replace(path)
            path.with_suffix(".x").replace(other)

    def become(make: Callable[[], object]) -> Callable[[], None]:
        def change() -> None:
            path.unlink()
            make()

        return change

    def folder() -> None:
        path.mkdir()
        (path / "inside").write_bytes(content)

    def leave_part() -> None:
        path.with_suffix(".part").write_bytes(damage_content(content, random))

    def kind_is_a_file() -> None:
        shutil.rmtree(path.parent)
        path.parent.write_bytes(b"")

    def allow(file: Path) -> None:
        write()
        file.chmod(0o777)

    def give_away(file: Path) -> None:
        write()
        os.chown(file, 12345, 12345)

    kinds: dict[str, Callable[[], object]] = {
        "content": write,
        "swapped": swap,
        "deleted": path.unlink,
        "folder": become(folder),
        "pipe": become(lambda: os.mkfifo(path)),
        "link to another": become(lambda: path.symlink_to(random.choice(others))),
        "link to nothing": become(lambda: path.symlink_to("/no/such/file")),
        "part left": leave_part,
        "writable by others": lambda: allow(path),
        "not readable": lambda: path.chmod(0),
        "folder of its kind a file": kind_is_a_file,
        "cache writable by others": lambda: allow(path.parents[1]),
        "part is a folder": lambda: path.with_suffix(".part").mkdir(),
    }
    if os.geteuid() == 0:
        kinds["of another user"] = lambda: give_away(path)
        kinds["cache of another user"] = lambda: give_away(path.parents[1])
    name = random.choice([*kinds, *["content", "swapped"] * 6])
    kinds[name]()
    return name
