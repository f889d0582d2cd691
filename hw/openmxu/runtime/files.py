"""Outputs: checked before the work, never visible while incomplete, written by one run at a time. Inputs: bounded.

::

    reserve ──> a hidden file beside each output ──> the work ──> fill it, sync it, rename it, sync the folder
                .openmxu-0123456789abcdef.part, locked

Invariant: the name of an output stands for the old file or for the whole new one, at any time. The hidden file is named
by a digest of the output's name, and locked: so a second run finds it and who holds it, and the next run replaces one
that a killed process has left.
"""

import errno
import gzip
import hashlib
import io
import itertools
import logging
import os
import re
import select
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from openmxu.runtime.locks import fcntl, holder, is_free, stands

_PROBE = 4096
"""Bytes for which an output must have room before the work."""

_PATIENCE = 60
"""Seconds that the reader of a pipe waits for the first byte."""

_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,9})")
_NAMED = {"/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}

_log = logging.getLogger(__name__)

_held: set[tuple[Path, int]] = set()
"""Outputs and folders of outputs that this process holds, and how often."""

_unfinished: dict[Path, None] = {}
"""Hidden files, and folders that go if they are empty, in the order in which they were made."""


class NotStoredError(RuntimeError):
    """The work is done, but an output could not be written."""


class UnreadError(BrokenPipeError):
    """The reader of an output has gone away."""


def check_input(path: Path) -> None:
    """Raise :exc:`ValueError` if an input is one of the outputs, see :func:`reserve`."""
    if (Path(os.path.realpath(path)), 0) in _held:
        raise ValueError(f"outputs must be other files than inputs, not {path}")


def open_input(path: Path) -> BinaryIO:
    """Open a file that a user names; of a pipe, the first byte must come within a minute. See :func:`check_input`."""
    check_input(path)
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115  # returned
    if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
        poll = select.poll()
        poll.register(file, select.POLLIN)
        if not poll.poll(1000):
            _log.warning("waiting for somebody to write to the pipe %s", path)
            if not poll.poll(1000 * _PATIENCE):
                file.close()
                raise TimeoutError(errno.ETIMEDOUT, f"nobody has written to the pipe for {_PATIENCE} s", str(path))
    os.set_blocking(file.fileno(), True)
    return file


def _open_at_once(name: str, flags: int) -> int:
    """Open a file; a pipe without a wait for its other end."""
    return os.open(name, flags | os.O_NONBLOCK)


def read_input(path: Path, most: int) -> bytes:
    """The content of a file that a user names, of at most so many bytes; see :func:`open_input`."""
    with open_input(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path}: it must have at most {most:,} bytes")
    return content


def read_unpacked(path: Path, most: int) -> bytes:
    """As :func:`read_input`, and what is inside of a file of gzip's, of at most so many bytes, too."""
    content = read_input(path, most)
    if content.startswith(b"\x1f\x8b"):
        try:
            with gzip.open(io.BytesIO(content)) as archive:
                content = archive.read(most + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: it must be a whole gzip file: {error}") from None
        if len(content) > most:
            raise ValueError(f"{path}: it must have at most {most:,} bytes, unpacked")
    return content


@contextmanager
def writing(path: Path | str) -> Iterator[BinaryIO]:
    """A file that becomes ``path`` when the block ends: all of it or, on any error in between, nothing.

    An existing file keeps its mode. A link stays a link, and its target is written. A pipe, a device or an open
    descriptor (``/dev/stdout``, ``/dev/fd/3``) is written to.
    """
    with _opened(path) as place:
        yield place.file
        place.commit()


def write_bytes(path: Path | str, content: bytes | memoryview) -> None:
    """Write ``content`` to ``path``, as :func:`writing` does."""
    with writing(path) as file:
        file.write(content)


def write_text(path: Path | str, content: str) -> None:
    """Write ``content`` to ``path`` in UTF-8, as :func:`writing` does."""
    write_bytes(path, content.encode())


@contextmanager
def reserve(*paths: Path | str | None) -> Iterator["Outputs"]:
    """Places for outputs, found before the work and held until the block ends."""
    with ExitStack() as stack:
        places: dict[Path, _Place] = {}
        for path in (Path(path) for path in paths if path is not None):
            place = stack.enter_context(_opened(path))
            if place.target is not None and place.target in [other.target for other in places.values()]:
                raise ValueError(f"outputs must be different files, not two times {path}")
            places[path] = place
        outputs = Outputs(places)
        yield outputs
    if outputs.failures:
        raise NotStoredError("; ".join(outputs.failures))
    if outputs.unread:
        raise UnreadError


class Outputs:
    """Outputs whose places are held, see :func:`reserve`.

    A write never raises an :exc:`OSError`, so that the other outputs are written, too; the end of the block does.
    """

    def __init__(self, places: dict[Path, "_Place"]) -> None:
        self.places = places
        self.failures = list[str]()
        self.unread = False

    def write_bytes(self, path: Path | str | None, content: bytes | memoryview) -> None:
        """Write the whole of a reserved output; nothing for ``None``."""
        if path is None:
            return
        place = self.places.pop(Path(path))
        try:
            place.file.write(content)
            place.commit()
        except BrokenPipeError:
            self.unread = True
        except OSError as error:
            place.discard()
            self.failures.append(str(_refusal(path, error)))

    def write_text(self, path: Path | str | None, content: str) -> None:
        """Write the whole of a reserved output in UTF-8; nothing for ``None``."""
        self.write_bytes(path, content.encode())


@contextmanager
def folder(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """A folder for outputs, made with its parents if missing; new folders that stay empty are removed afterwards.

    Another process that writes to it raises a :exc:`ValueError`, unless the folder is ``shared``: each run then writes
    files of its own.
    """
    with ExitStack() as stack:
        for made in (each.absolute() for each in (*reversed(path.parents), path) if not os.path.lexists(each)):
            _unfinished[made] = None
            stack.callback(_discard, made)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise type(error)(
                f"output must be a directory that can be written, not {str(path)!r}: {error.strerror}"
            ) from None
        key = Path(os.path.realpath(path)), 0
        if not shared and key not in _held and os.access(path, os.R_OK):  # a folder may be written to, but not read
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, handle)
            _claim(handle, path)
            _held.add(key)
            stack.callback(_held.discard, key)
        yield path


def discard_all() -> None:
    """Remove all hidden files and new folders without files, for a process that a signal ends right after."""
    for path in reversed(list(_unfinished)):
        _discard(path)


def _discard(path: Path) -> None:
    with suppress(OSError):  # not made, or a folder in use
        path.rmdir() if path.is_dir() else path.unlink()
    _unfinished.pop(path, None)


def _claim(handle: int, path: Path) -> None:
    """Lock an open output until it is closed, or say who writes there."""
    if not is_free(handle):
        raise ValueError(f"output must be written by one run at a time: {holder(handle)} writes {path}")


class _Stream:
    """An output that is written directly: a pipe, a device, or a descriptor that is open already."""

    target: Path | None = None

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self._path, self._file = path, None if descriptor is None else os.fdopen(os.dup(descriptor), "wb")
        if self._file and fcntl.fcntl(self._file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            self._file.close()
            raise PermissionError(errno.EACCES, "it is open for reading only")

    @property
    def file(self) -> BinaryIO:
        """The file to write to. For a pipe it waits for the reader, and says so."""
        if sys.stdout is not None:
            sys.stdout.flush()  # what was printed before may go to the same place
        if self._file is None:
            try:
                os.close(os.open(self._path, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                if error.errno == errno.ENXIO:
                    _log.warning("waiting for somebody to read the pipe %s", self._path)
            self._file = self._path.open("wb")
        return self._file

    def commit(self) -> None:
        """Close the file: nothing more will be written."""
        self.file.close()

    def discard(self) -> None:
        """Close the file; the bytes that were written stay."""
        if self._file is not None:
            with suppress(OSError):  # what is left over does not fit either
                self._file.close()


class _Part:
    """A place for a file: a hidden file beside it, which replaces it on commit."""

    def __init__(self, target: Path) -> None:
        self.target = target
        # Never with more rights for others than the existing file.
        self._mode = stat.S_IMODE(target.stat().st_mode) & 0o777 if target.exists() else None
        # What this process has reserved, it may write more than once.
        self._key = next(key for key in zip(itertools.repeat(target), itertools.count()) if key not in _held)
        digest, number = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16], self._key[1]
        self._name = target.with_name(f".openmxu-{digest}{f'-{number}' if number else ''}.part")
        _held.add(self._key)  # at once: another thread may write the same output
        try:
            self.file = self._create()
        except BaseException:
            _held.discard(self._key)
            raise
        _unfinished[self._name] = None
        try:
            os.pwrite(self.file.fileno(), bytes(_PROBE), 0)
            os.ftruncate(self.file.fileno(), 0)
        except BaseException:
            self.discard()
            raise

    def _create(self) -> BinaryIO:
        """The hidden file, locked. The mode is cut by the umask, as for any new file."""
        while True:
            with suppress(FileNotFoundError), open(self._name, "rb", opener=_open_at_once) as other:
                _claim(other.fileno(), self.target)
                self._name.unlink()  # a killed process has left it
            with suppress(FileExistsError):
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
                mode = 0o666 if self._mode is None else self._mode
                file = os.fdopen(os.open(self._name, flags, mode), "wb")
                if is_free(file.fileno()) and stands(file.fileno(), self._name):  # nobody took it before it was locked
                    return file
                file.close()

    def commit(self) -> None:
        """Give the hidden file its final name, on the disk."""
        self.file.flush()
        handle = self.file.fileno()
        if self._mode is not None:
            os.fchmod(handle, self._mode)
        os.fsync(handle)
        if os.path.lexists(self._name) and not stands(handle, self._name):  # on a file system without locks
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        os.replace(self._name, self.target)
        _unfinished.pop(self._name, None)
        self.discard()
        with suppress(PermissionError):  # a folder may be written to, but not read
            parent = os.open(self.target.parent, os.O_RDONLY | os.O_DIRECTORY)
            with ExitStack() as stack:
                stack.callback(os.close, parent)
                os.fsync(parent)

    def discard(self) -> None:
        """Delete the hidden file, unless it was committed."""
        if not self.file.closed:
            if self._name in _unfinished:
                _discard(self._name)
            with suppress(OSError):  # what is left over does not fit either
                self.file.close()
            _held.discard(self._key)


_Place = _Stream | _Part


@contextmanager
def _opened(path: Path | str) -> Iterator[_Place]:
    """The place of an output, discarded at the end of the block unless it was committed."""
    try:
        place = _find(Path(path))
    except OSError as error:
        raise _refusal(path, error) from None
    try:
        yield place
    finally:
        place.discard()


def _refusal(path: Path | str, error: OSError) -> OSError:
    return type(error)(f"output {path} cannot be written: {error.strerror}") if error.strerror else error


def _find(path: Path) -> _Place:
    if match := _DESCRIPTOR.fullmatch(_NAMED.get(str(path), str(path))):
        return _Stream(path, int(match[1]))
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return _Part(target)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"output must be a file, not the directory {path}")
    if not os.access(target, os.W_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return _Part(target) if stat.S_ISREG(mode) else _Stream(path, None)
