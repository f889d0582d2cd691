"""Writing files so that nobody ever finds half of one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["write_bytes", "write_text", "writing"]


@contextmanager
def writing(path: Path | str) -> Iterator[BinaryIO]:
    """A file that becomes ``path`` when the block ends: all of it or, on any error in between, nothing.

    A link stays a link, and its target is written. What is no regular file, such as a pipe, is written to.

    Raises
    ------
    OSError
        The file cannot be written; what stood there still does.
    """
    path = Path(os.path.realpath(path))
    if path.is_dir():
        raise IsADirectoryError(f"output must be a file, not the directory {path}")
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise type(error)(f"output {path} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        # mkstemp makes files private; give this one the mode that open() would have.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write_bytes(path: Path | str, content: bytes) -> None:
    """Write ``content`` to ``path``, as :func:`writing` does."""
    with writing(path) as file:
        file.write(content)


def write_text(path: Path | str, content: str) -> None:
    """As :func:`write_bytes`, for text in UTF-8."""
    write_bytes(path, content.encode())
