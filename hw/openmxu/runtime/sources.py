"""The source files that this process's code came from: their digest, and whether they have changed since import.

A netlist follows from the code that makes it. To look it up under a digest of that code is quicker than to make it,
but the code is in memory and the digest is of files, which an editor or a checkout may change at any moment::

    imports begin                 a netlist is asked for             it has been made
    |                             |                                  |
    Sources(): states of files    digest(): contents of files,       still(): states as at the beginning, and
    (inode, size, times)          if their states are the same       the code in memory is what the files say

The invariant: a digest is given, and a netlist stored under it, only while no file has changed since before the first
import. A change that is taken back counts: it leaves another ``ctime``.
"""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec

_SUFFIXES = (".py", ".c", ".cpp")


class Sources:
    """The source files of a package, in their present state: make one before the package's modules are imported."""

    def __init__(self, package: str) -> None:
        self._package = package
        spec = find_spec(package)
        self._folders = list((spec and spec.submodule_search_locations) or [])
        self._states = self._look()
        self._digests: dict[tuple[str, ...], str] = {}

    def digest(self, without: tuple[str, ...] = ()) -> str | None:
        """A digest of the files; ``None`` if they have changed, or if there are none, as in an archive."""
        try:
            self._digests[without] = self._digests.get(without) or self._contents(without)
        except OSError:
            return None
        return self._digests[without] if self._states and self._look() == self._states else None

    def still(self) -> bool:
        """Whether the files are unchanged, and the modules that were imported from them have the same code.

        Python may run older code than a file says: it compares times in seconds and sizes with those of a ``.pyc``.
        """
        imported = [name for name in list(sys.modules) if name.partition(".")[0] == self._package]
        return self._look() == self._states and all(map(_is_as_written, imported))

    def _contents(self, without: tuple[str, ...]) -> str:
        # Not imported above: until signals are handled, which comes right after, Ctrl-C would show a traceback.
        import hashlib  # noqa: PLC0415

        digest = hashlib.sha256()
        for path in self._states:
            name = path.removeprefix(self._folders[0])
            if not name.removeprefix("/").startswith(without):
                with open(path, "rb") as file:
                    content = file.read()
                digest.update(f"{name}:{len(content)}:".encode() + content)
        return digest.hexdigest()

    def _look(self) -> dict[str, tuple[int, int, int, int]]:
        """The state of each file, in the order of their names, without files that are gone."""
        states = {}
        folders = list(self._folders)
        while folders:
            with suppress(FileNotFoundError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir() and entry.name != "__pycache__":
                        folders.append(entry.path)
                    elif entry.name.endswith(_SUFFIXES):
                        with suppress(FileNotFoundError):
                            status = os.stat(entry.path)
                            states[entry.path] = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        return dict(sorted(states.items()))


def digest_all(sources: Iterable[Sources]) -> str | None:
    """A digest of several packages; see :meth:`Sources.digest`."""
    digests = [package.digest() for package in sources]
    return None if None in digests else " ".join(map(str, digests))


def still_all(sources: Iterable[Sources]) -> bool:
    """Whether several packages are unchanged; see :meth:`Sources.still`."""
    return all(package.still() for package in sources)


def _is_as_written(name: str) -> bool:
    """Whether the code that Python imports for a module is that of its source file."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    if spec is None or not isinstance(spec.loader, SourceFileLoader):
        return False
    try:
        file = spec.loader.get_filename(spec.name)
        return bool(spec.loader.get_code(spec.name) == spec.loader.source_to_code(spec.loader.get_data(file), file))
    except (ImportError, OSError, SyntaxError, ValueError):
        return False
