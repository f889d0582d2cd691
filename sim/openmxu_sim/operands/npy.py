"""Read arrays from ``.npy`` and ``.npz`` files, trusting nothing in them; and write them."""

import io
import os
import stat
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from openmxu.runtime.files import open_input

_CHUNK = 1 << 24
"""Bytes read at a time: a header may promise more than there is memory."""

_OF_A_PACKAGE = 2
"""``dtype.isbuiltin`` of types that are not numpy's own, such as bfloat16."""

_LONGEST_HEADER = 1 << 16
"""Most bytes of a header; numpy refuses more than 10,000."""


def read_matrix(path: Path, parameter: str) -> npt.NDArray[Any]:
    """Read the array in a ``.npy`` file, or in a pipe."""
    with open_input(path) as file:
        status = os.fstat(file.fileno())
        return _array(file, status.st_size if stat.S_ISREG(status.st_mode) else None, path, parameter)


def read_arrays(path: Path, parameter: str) -> Mapping[str, npt.NDArray[Any]]:
    """Return the arrays in a ``.npz`` file by their names; each is unpacked when it is first asked for."""
    return _Archive(path, parameter)


class _Archive(Mapping[str, npt.NDArray[Any]]):
    def __init__(self, path: Path, parameter: str) -> None:
        self._path, self._parameter = path, parameter
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        with self._opened() as archive:
            self._members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self._arrays:
            member = self._members[name]
            path = Path(f"{self._path}:{member.filename}")
            with self._opened() as archive, archive.open(member) as file:
                self._arrays[name] = _array(cast(BinaryIO, file), member.file_size, path, self._parameter)
        return self._arrays[name]

    @contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        try:
            with open_input(self._path) as file, zipfile.ZipFile(file) as archive:
                yield archive
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:  # locked, or packed otherwise
            raise ValueError(f"{self._parameter} must be a .npz file of arrays, not {self._path}: {error}") from None


def _array(file: BinaryIO, length: int | None, path: Path, parameter: str) -> npt.NDArray[Any]:
    """Read the array in an open file of ``length`` bytes; ``None``: unknown."""

    def refusal(reason: str) -> ValueError:
        return ValueError(f"{parameter} must be a .npy file of numbers, not {path}: {reason}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's, of headers by Python 2, and Python's, of odd literals
            shape, fortran, dtype = _header(file)
    except zipfile.BadZipFile:
        raise
    except Exception as error:
        # numpy hands the header to Python's parser, which says no in many ways: SyntaxError, TokenError,
        # RecursionError, MemoryError ...
        raise refusal(str(error).partition("\n")[0] or type(error).__name__) from None
    if dtype.hasobject:
        raise refusal("it holds Python objects")
    if any(extent < 0 for extent in shape):
        raise refusal(f"its shape is {shape}")
    size = prod(shape) * dtype.itemsize
    left = size if length is None else length - file.tell()
    content = _read(file, size) if size <= left else b""
    if len(content) < size:
        raise refusal(
            f"the shape {shape} of {dtype} needs {size} bytes, and the file has {max(left, 0)}"
            if size > left
            else f"it ends after {len(content)} of {size} bytes"
        )
    try:
        return np.ndarray(shape, dtype, content, order="F" if fortran else "C")
    except (ValueError, TypeError, OverflowError) as error:  # a length beyond numpy's, beside a length of 0; True
        raise refusal(str(error)) from None


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the shape, whether the order is Fortran's, and the type."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"the format's version must be 1.0 or 2.0, not {version[0]}.{version[1]}")
    length = file.read(2 * version[0])
    text = file.read(min(int.from_bytes(length, "little"), _LONGEST_HEADER))
    text = text.replace(b"'<f1'", b"'|V1'")  # numpy's name of float8_e5m2, which it cannot read
    header: tuple[tuple[int, ...], bool, np.dtype[Any]] = readers[version](io.BytesIO(length + text))
    return header


def _read(file: BinaryIO, size: int) -> bytearray:
    """Read ``size`` bytes, or as many as there are."""
    content = bytearray()
    while len(content) < size and (chunk := file.read(min(_CHUNK, size - len(content)))):
        content += chunk
    return content


def to_npy(array: npt.NDArray[Any]) -> bytes:
    """Return the content of a .npy file; numpy has no names for bfloat16 and fp8, and stores them as bytes."""
    buffer = io.BytesIO()
    own = array.dtype.isbuiltin == _OF_A_PACKAGE
    np.save(buffer, array.view(f"V{array.itemsize}") if own else array, allow_pickle=False)
    return buffer.getvalue()


def of_bytes(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array whose bytes are numbers of a type that numpy's files do not name, such as bfloat16, as that."""
    stored = array.dtype == np.dtype(f"V{dtype.itemsize}") and dtype.isbuiltin != 1
    return array.view(dtype) if stored else array


def to_npz(arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return the content of a .npz file; numpy's own function refuses some names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            archive.writestr(zipfile.ZipInfo(f"{_member(name)}.npy"), to_npy(array))  # without the time of day
    return buffer.getvalue()


def _member(name: str) -> str:
    """Return a name that stays in a folder where an archive is unpacked: what could leave it is written as in URLs."""
    parts = ["%2E%2E" if part == ".." else part for part in name.replace("\\", "%5C").split("/")]
    inside = "/".join(parts)
    inside = f"%2F{inside[1:]}" if inside.startswith("/") else inside
    return "".join(sign if sign.isprintable() else quote(sign) for sign in inside)
