"""What numba compiles is kept whole or made again, and tried before it is kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

MODULE = """\
from numba import types
from openmxu_sim import SOURCES
from openmxu_sim.engines.machine_code import kept_code

def double(x):
    return x + x

with kept_code(__file__, SOURCES) as compile_:
    twice = compile_(types.int64(types.int64), double)
    if compile_.loaded < compile_.functions:
        assert twice(21) == ANSWER
print(compile_.loaded, twice(21))
"""


def run(folder: Path, answer: int = 42) -> str:
    """What a process says that imports the module."""
    file = folder / "module.py"
    if not file.exists():
        file.write_text(MODULE.replace("ANSWER", str(answer)))
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder)}
    done = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().rpartition("\n")[2]


def entries(folder: Path) -> list[Path]:
    return [path for path in (folder / "cache").rglob("*") if path.is_file()]


def test_compiled_once_and_nowhere_else(tmp_path: Path) -> None:
    assert run(tmp_path) == "0 42"
    assert run(tmp_path) == "1 42"
    assert len(entries(tmp_path)) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "module.py"]


@pytest.mark.parametrize("place", [40, *(pytest.param(place, marks=pytest.mark.slow) for place in (0, 500, -1))])
def test_a_flipped_bit(place: int, tmp_path: Path) -> None:
    assert run(tmp_path) == "0 42"
    [entry] = entries(tmp_path)
    data = bytearray(entry.read_bytes())
    data[place] ^= 16
    entry.write_bytes(data)
    assert run(tmp_path) == "0 42"
    assert run(tmp_path) == "1 42"


def test_wrong_code_is_not_kept(tmp_path: Path) -> None:
    assert run(tmp_path, answer=43) == "AssertionError"
    assert not entries(tmp_path)


def test_a_younger_file_is_compiled_anew(tmp_path: Path) -> None:
    assert run(tmp_path) == "0 42"
    os.utime(tmp_path / "module.py", (1e9, 1e9))
    assert run(tmp_path) == "0 42"
    assert run(tmp_path) == "1 42"


def test_no_place_for_files(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import tempfile; tempfile.tempdir = '/proc'\n")
    (tmp_path / "module.py").write_text("import sitecustomize\n" + MODULE.replace("ANSWER", "42"))
    assert run(tmp_path) == run(tmp_path) == "0 42"
    assert not entries(tmp_path)
