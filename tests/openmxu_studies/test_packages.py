"""Files of packages: the right ones, kept, and a line that says why there are none. Nothing here needs a network."""

import os
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from openmxu_evidence.verify.checks import checks
from openmxu_studies.packages import from_npm, from_pypi

from ..conftest import Said


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_files_of_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.touch(0o755)
    (tmp_path / "package").mkdir()
    with tarfile.open(tmp_path / "made.tgz", "w:gz") as archive:
        for name, content in (("package/one", b"1"), ("package/two", b"\x00two")):
            (tmp_path / name).write_bytes(content)
            archive.add(tmp_path / name, name)
    npm.write_text(f'#!/bin/sh\n[ "$*" = "pack --silent toy@1.0" ] && cp {tmp_path}/made.tgz toy-1.0.tgz\n')
    monkeypatch.setenv("PATH", f"{npm.parent}{os.pathsep}{os.environ['PATH']}")
    assert from_npm("toy@1.0", ["package/two", "package/one"]) == [b"\x00two", b"1"]
    npm.write_text("#!/bin/sh\nexit 1\n")
    assert from_npm("toy@1.0", ["package/two", "package/one"]) == [b"\x00two", b"1"], "kept"
    with pytest.raises(OSError, match=r"^npm cannot download toy@2.0: it says nothing$"):
        from_npm("toy@2.0", ["package/one"])
    npm.write_text("#!/bin/sh\necho no such package >&2; exit 1\n")
    with pytest.raises(OSError, match=r"^npm cannot download toy@2.0: no such package$"):
        from_npm("toy@2.0", ["package/one"])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OSError, match=r"^toy@2.0 comes from npm, which is not installed$"):
        from_npm("toy@2.0", ["package/one"])


def test_files_of_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = {
        "METADATA": "Metadata-Version: 2.1\nName: openmxu-toy\nVersion: 1.0\nRequires-Dist: openmxu-toy-needs\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(tmp_path / "openmxu_toy-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("toy/model.bin", b"\x00model")
        for name, text in about.items():
            wheel.writestr(f"openmxu_toy-1.0.dist-info/{name}", text)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert from_pypi("openmxu-toy==1.0", ["toy/model.bin"]) == [b"\x00model"]
    with pytest.raises(OSError, match=r"^pip cannot download openmxu-toy==2.0: .*No matching distribution"):
        from_pypi("openmxu-toy==2.0", ["toy/model.bin"])


@pytest.mark.parametrize(
    ("words", "needs", "folder", "target"),
    [
        ("study training", "study training", "docs/studies", "setup-models"),
        ("study pretrained", "study pretrained", "docs/studies", "setup-models"),
        ("verify --faults --json f.json", "--faults", "docs/studies", "setup-models"),
        ("verify --json f.json", "verify", "tests/evidence", "setup"),
    ],
)
def test_a_wheel_has_no_studies_and_no_evidence(
    words: str, needs: str, folder: str, target: str, monkeypatch: pytest.MonkeyPatch, refused: Said, tmp_path: Path
) -> None:
    package = f"openmxu_{Path(folder).name}"
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    checks.cache_clear()
    said = f"needs OpenMXU's repository, where {folder} is: clone it, and run make {target}"
    assert refused(words).splitlines()[-1].endswith(f": {needs} {said}")
    assert not list(tmp_path.iterdir())
