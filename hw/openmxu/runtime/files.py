"""Outputs: checked before the work, never visible while incomplete, written by one run at a time. Inputs: bounded.

::

    reserve ──> a hidden file beside each output ──> the work ──> fill it, sync it, rename it, sync the folder
                .openmxu-0123456789abcdef.part, locked             │
                                                                   └──> no room any more: save the result elsewhere

Invariant: the name of an output stands for the old file or for the whole new one, at any time. The watcher removes the
hidden files of a killed process (:mod:`openmxu.runtime.process`). If it could not, their locks are gone, and the next
process that writes to their folder deletes them.

Two runs never mix their outputs: a folder of outputs is locked, and so is the hidden file beside a single one, whose
name begins with a digest of the output's. The locks are the kernel's, on what is there anyway: none outlives its
process, and no lock file stays behind, as one of the package filelock would.
"""

import errno
import gzip
import hashlib
import io
import logging
import os
import re
import secrets
import select
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from openmxu.runtime.locks import fcntl, holder
from openmxu.runtime.process import transient, vacant

_PART = re.compile(r"\.openmxu-[0-9a-f]{16}\.part")
"""Names of hidden files."""

_PROBE = 4096
"""Bytes for which an output must have room before the work."""

_MOST_LINKS = 40
"""Links that a path may lead through, as in the kernel."""

_PATIENCE = 60
"""Seconds that the reader of a pipe waits for the first byte."""

_log = logging.getLogger(__name__)

_reserved: set[Path] = set()
"""Outputs whose places this process holds."""

_folders: set[tuple[int, int]] = set()
"""Folders of outputs that this process has locked, by device and inode."""


class NotStoredError(RuntimeError):
    """The work is done, but an output could not be written; the text says where its content was saved."""


class UnreadError(BrokenPipeError):
    """The reader of an output has gone away."""


def check_input(path: Path) -> None:
    """Raise :exc:`ValueError` if an input is one of the outputs, see :func:`reserve`."""
    if Path(os.path.realpath(path)) in _reserved:
        raise ValueError(f"outputs must be other files than inputs, not {path}")


def open_input(path: Path) -> BinaryIO:
    """Open a file that a user names; of a pipe, the first byte must come within a minute. See :func:`check_input`."""
    check_input(path)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115  # returned
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

    An existing file keeps its mode and, where this process may set it, its owner. A link stays a link, and its
    target is written. A pipe, a device or an open descriptor (``/dev/stdout``, ``/dev/fd/3``) is written to.
    """
    with _opened(path) as place:
        yield place.open()
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
            if isinstance(place, _Part) and place.target not in _reserved:  # else a caller of ours has reserved it
                place.refuse_others()
                _reserved.add(place.target)
                stack.callback(_reserved.discard, place.target)
        outputs = Outputs(places)
        yield outputs
        outputs.check()


class Outputs:
    """Outputs whose places are held, see :func:`reserve`.

    A write never raises an :exc:`OSError`: it keeps the content elsewhere, so that the other outputs are written, too.
    """

    def __init__(self, places: dict[Path, "_Place"]) -> None:
        self._places = places
        self._failures: list[str] = []
        self._unread = False

    def write_bytes(self, path: Path | str | None, content: bytes | memoryview) -> None:
        """Write the whole of a reserved output; nothing for ``None``."""
        if path is None:
            return
        path = Path(path)
        place = self._places.pop(path)
        try:
            place.open().write(content)
            place.commit()
        except BrokenPipeError:
            self._unread = True
        except OSError as error:
            place.discard()  # first, for it may take the room that the content needs
            self._failures.append(f"{_refusal(path, error)}; {_keep(path.name, content)}")

    def write_text(self, path: Path | str | None, content: str) -> None:
        """Write the whole of a reserved output in UTF-8; nothing for ``None``."""
        self.write_bytes(path, content.encode())

    def check(self) -> None:
        """Raise :exc:`NotStoredError` or :exc:`UnreadError` if an output has failed so far."""
        if self._failures:
            raise NotStoredError("; ".join(self._failures))
        if self._unread:
            raise UnreadError


@contextmanager
def folder(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """A folder for outputs, made with its parents if missing; new folders that stay empty are removed afterwards.

    Another process that writes to it raises a :exc:`ValueError`, unless the folder is ``shared``: each run then writes
    files of its own.
    """
    with ExitStack() as stack:
        for directory in (*reversed(path.parents), path):
            if not os.path.lexists(directory):
                stack.enter_context(vacant(directory))
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise type(error)(
                f"output must be a directory that can be written, not {str(path)!r}: {error.strerror}"
            ) from None
        if not shared:
            stack.enter_context(_alone(path))
        yield path


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock of a folder of outputs, unless this process holds it already."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # a folder may be written to, but not read
        yield
        return
    status = os.fstat(handle)
    key = status.st_dev, status.st_ino
    try:
        if key in _folders:
            yield
            return
        _lock(handle, path)
        _folders.add(key)
        try:
            yield
        finally:
            _folders.discard(key)
    finally:
        os.close(handle)


def _lock(file: int | BinaryIO, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(f"output must be written by one run at a time: {holder(file)} writes {path}") from None
    except OSError:  # a file system without locks
        pass


class _Stream:
    """An output that is written directly: a pipe, a device, or a descriptor that is open already."""

    target: Path | None = None

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        if descriptor is not None:
            copy = os.dup(descriptor)  # whoever opened the descriptor may close it meanwhile
            if fcntl.fcntl(copy, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                os.close(copy)
                raise PermissionError(errno.EACCES, "it is open for reading only")
            self._file = os.fdopen(copy, "wb")
        elif not os.access(path, os.W_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def open(self) -> BinaryIO:
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
        self.open().close()

    def discard(self) -> None:
        """Close the file; the bytes that were written stay."""
        with suppress(OSError):  # what is left over does not fit either
            if self._file is not None:
                self._file.close()


class _Part:
    """A place for a file: a hidden file beside it, which replaces it on commit."""

    def __init__(self, target: Path) -> None:
        self.target = target
        _sweep(target.parent)
        # Never with more rights for others than the existing file.
        mode = stat.S_IMODE(target.stat().st_mode) & 0o777 if target.exists() else 0o666
        self._stack = ExitStack()
        self._name, self._file = _create(target, mode, self._stack)
        try:
            _allocate(self._file.fileno())
            os.ftruncate(self._file.fileno(), 0)
        except BaseException:
            self.discard()
            raise

    def refuse_others(self) -> None:
        """Raise :exc:`ValueError` if another process holds the output, too."""
        for other in self.target.parent.glob(f"{_mark(self.target)}*.part"):
            if other != self._name:
                with suppress(OSError), other.open("rb") as file:  # gone, or somebody else's
                    _lock(file, self.target)

    def open(self) -> BinaryIO:
        """The hidden file."""
        return self._file

    def commit(self) -> None:
        """Give the hidden file its final name, on the disk."""
        self._file.flush()
        _resemble(self._file.fileno(), self.target)
        os.fsync(self._file.fileno())
        os.replace(self._name, self.target)
        self._stack.close()
        self._file.close()
        _sync(self.target.parent)

    def discard(self) -> None:
        """Delete the hidden file, unless it was committed."""
        if not self._file.closed:
            self._stack.close()
            with suppress(OSError):  # what is left over does not fit either
                self._file.close()


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
    descriptor = _descriptor(path)
    if descriptor is not None:
        return _Stream(path, descriptor)
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return _Part(target)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"output must be a file, not the directory {path}")
    if not stat.S_ISREG(mode):
        return _Stream(path, None)
    if not os.access(target, os.W_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return _Part(target)


def _descriptor(path: Path) -> int | None:
    """The open descriptor of this process that a path names, as ``/dev/stdout`` does, if it names one.

    The kernel shows it as a link to a file, which a shell may have opened to append to, or to what has no name.
    """
    for _ in range(_MOST_LINKS):
        link = Path(os.path.realpath(path.parent), path.name)
        if link.parent == Path("/proc", str(os.getpid()), "fd") and path.name.isdecimal():
            return int(path.name)
        if not link.is_symlink():
            return None
        path = link.parent / os.readlink(link)
    return None


def _create(target: Path, mode: int, stack: ExitStack) -> tuple[Path, BinaryIO]:
    """A new hidden file, locked, that goes with the stack. The mode is cut by the umask, as for any new file."""
    while True:
        name = target.parent / f"{_mark(target)}{secrets.token_hex(4)}.part"
        stack.enter_context(transient(name))
        file = os.fdopen(os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode), "wb")
        with suppress(OSError):  # without locks no process sweeps
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.lexists(name):  # no process swept it before it was locked
            return name, file
        file.close()


def _mark(target: Path) -> str:
    """How the names of an output's hidden files begin."""
    return f".openmxu-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]}"


def _allocate(handle: int) -> None:
    """Reserve room for a page in an empty file."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, _PROBE)
    else:  # macOS
        os.pwrite(handle, bytes(_PROBE), 0)


def _sweep(where: Path) -> None:
    """Delete hidden files that killed processes of this user left behind."""
    with suppress(OSError), os.scandir(where) as entries:
        for entry in entries:
            if not _PART.fullmatch(entry.name):
                continue
            with suppress(OSError):  # locked, somebody else's, or gone
                status = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                    continue
                with open(os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)


def _resemble(handle: int, path: Path) -> None:
    """Give an open file the owner, the group and the mode of the file at ``path``, as far as allowed."""
    try:
        old, new = path.stat(), os.fstat(handle)
    except FileNotFoundError:
        return
    for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
        if (owner, group) not in ((new.st_uid, -1), (-1, new.st_gid)):
            with suppress(PermissionError):
                os.fchown(handle, owner, group)
    os.fchmod(handle, stat.S_IMODE(old.st_mode) & 0o777)


def _sync(where: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    with suppress(PermissionError):  # a folder may be written to, but not read
        handle = os.open(where, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _keep(name: str, content: bytes | memoryview) -> str:
    """Save the content of an output that cannot be written elsewhere, and say where."""
    for where in (tempfile.gettempdir, Path.home):
        with suppress(OSError, RuntimeError):  # try the next one
            shelf = Path(tempfile.mkdtemp(prefix="openmxu-kept-", dir=where()))
            try:
                write_bytes(shelf / name, content)
            except OSError:
                shelf.rmdir()
                raise
            return f"it was saved as {shelf / name}"
    return "nor can it be saved in the temporary or the home directory"
