"""Writing files so that nobody ever finds half of one."""

import os
import tempfile
from pathlib import Path

__all__ = ["write_bytes", "write_text"]


def write_bytes(path: Path | str, content: bytes) -> None:
    """Write ``content`` to ``path``: either all of it or, on any error, nothing.

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
        path.write_bytes(content)
        return
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise type(error)(f"output {path} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp makes files private; give this one the mode that open() would have.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write_text(path: Path | str, content: str) -> None:
    """As :func:`write_bytes`, for text in UTF-8."""
    write_bytes(path, content.encode())
