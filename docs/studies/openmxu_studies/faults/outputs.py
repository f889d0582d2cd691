"""Places where an output cannot be written, or only half: all of it is written or nothing, and old files stay."""

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np

from openmxu_studies.faults import LEFTOVER, LOST, SURVIVED, WRONG
from openmxu_studies.faults.command import Said, call
from openmxu_studies.faults.products import Product

_OLD = b"what stood there before"


def trial(seed: int, folder: Path) -> tuple[str, str]:
    """Write a product to a hostile place."""
    random = Random(f"outputs {seed}")
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    os.environ["HOME"] = str(folder / "home")
    (folder / "home").mkdir()
    (folder / "out").mkdir()
    product = Product(random, size=40)  # more than a page, so that the disk can be full in the middle
    np.save(folder / "A.npy", product.a)
    np.save(folder / "B.npy", product.b)
    target, size = folder / "out" / "C.npy", 1 << 30
    name = random.choice([*_PLACES, "file size", "file size"])
    if random.random() < 0.5 and name in ("file size", "nothing wrong"):
        target.write_bytes(_OLD)
    if name == "file size":
        size = random.randrange(8000)
    else:
        target = _PLACES.get(name, lambda target, folder: target)(target, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}
    operands = str(folder / "A.npy"), str(folder / "B.npy")
    options = f"--rows 2 --columns 2 --engine golden --subnormals {product.mode}".split()
    try:
        with _size_limit(size):
            result = call(["matmul", *operands, "-o", str(target), *options])
    except Exception as error:
        return LOST, f"{name}: {error!r}"
    fate, what = _judge(result, folder, target, before, product.right)
    return fate, f"{name}: {what}"


@contextmanager
def _size_limit(size: int) -> Iterator[None]:
    """Limit the size of the files that are written."""
    # Python ignores this signal in a program of its own, too.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (min(size, hard) if hard != resource.RLIM_INFINITY else size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _judge(result: Said, folder: Path, target: Path, before: dict[Path, bytes], right: bytes) -> tuple[str, str]:
    what = f"exit code {result.code}"
    if not result.is_clear:
        return LOST, f"{what}, more than a line"
    after = {path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()}
    if any(path.name.startswith(".") for path in after - before.keys()):
        return LEFTOVER, what
    if result.code == 0:
        if not target.is_file():  # a device took it
            return SURVIVED, what
        return (SURVIVED if np.load(target).tobytes() == right else WRONG), what
    damaged = [path for path, content in before.items() if not path.exists() or path.read_bytes() != content]
    return (LOST if damaged else SURVIVED), f"{what}, {damaged}"


def _link(target: Path, old: Path) -> None:
    old.write_bytes(_OLD)
    target.symlink_to(old)


def _make(change: Callable[[Path, Path], object]) -> Callable[[Path, Path], Path]:
    def prepare(target: Path, folder: Path) -> Path:
        change(target, folder)
        return target

    return prepare


_PLACES: dict[str, Callable[[Path, Path], Path]] = {
    "nothing wrong": lambda target, _: target,
    "missing folder": lambda target, _: target.parent / "none" / "C.npy",
    "folder a file": lambda target, folder: folder / "A.npy" / "C.npy",
    "a folder": _make(lambda target, _: target.mkdir()),
    "link to nothing": _make(lambda target, _: os.symlink("/no/such/folder/C.npy", target)),
    "link to a file": _make(lambda target, folder: _link(target, folder / "old")),
    "link to itself": _make(lambda target, _: os.symlink("C.npy", target)),
    "full device": lambda target, _: Path("/dev/full"),
    "null device": lambda target, _: Path("/dev/null"),
    "proc": lambda target, _: Path("/proc/C.npy"),
    "too long": lambda target, _: target.with_name("C" * 300 + ".npy"),
    "one of the inputs": lambda target, folder: folder / "A.npy",
    "odd name": lambda target, _: target.with_name("C\n\udcff \x1b[31m.npy"),
    "nothing": lambda target, _: Path(""),
}
