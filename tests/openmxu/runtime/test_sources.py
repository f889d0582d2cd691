"""What is kept under a digest of the sources was made by these sources, whatever happens to them meanwhile."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmxu.runtime.sources import Sources

from ...conftest import needs_compiler, slow
from .conftest import python

ROOT = Path(__file__).parents[3]
ROUND = "hw/openmxu/arith/datapath/round.py"
RIGHT, TRUNCATING = "return kept, guard & (kept[0]", "return kept, Const(0, 1) & (kept[0]"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "twosources"
    folder.mkdir()
    for name, text in (("__init__.py", ""), ("number.py", "NUMBER = 1\n"), ("text.c", "int number;\n")):
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "twosources"]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def test_sources_that_stay(package: Path) -> None:
    sources = Sources("twosources")
    import twosources.number  # type: ignore[import-not-found]  # noqa: F401, PLC0415

    assert sources.digest()
    assert sources.still()
    assert Sources("twosources").digest() == sources.digest()
    assert Sources("no_such_package_at_all").digest() is None
    for name in ("twosources.number", "twosources"):
        del sys.modules[name]


def test_sources_that_do_not_count(package: Path) -> None:
    """What is left out may change between two processes; what is not may not."""

    def digest() -> str | None:
        return Sources("twosources").digest(without=("number", "text.c"))

    before, whole = digest(), Sources("twosources").digest()
    assert before
    assert before != whole
    (package / "number.py").write_text("NUMBER = 2\n")
    (package / "text.c").unlink()
    assert digest() == before
    (package / "__init__.py").write_text("NUMBER = 3\n")
    assert digest() != before


_CHANGES: dict[str, Callable[[Path], object]] = {
    "edited": lambda package: (package / "number.py").write_text("NUMBER = 2\n"),
    "taken back": lambda package: os.utime(package / "number.py", (1e9, 1e9)),
    "C edited": lambda package: (package / "text.c").write_text("int other;\n"),
    "deleted": lambda package: (package / "number.py").unlink(),
    "added": lambda package: (package / "other.py").touch(),
    "renamed": lambda package: (package / "number.py").rename(package / "numbers.py"),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_sources_that_change(change: str, package: Path) -> None:
    sources = Sources("twosources")
    before = sources.digest()
    _CHANGES[change](package)
    assert sources.digest() is None
    assert not sources.still()
    assert (Sources("twosources").digest() == before) == (change == "taken back")


def test_older_code_than_the_file_says(package: Path) -> None:
    """An edit within the second, of the same length: Python runs what it has compiled before."""
    (package / "number.py").write_text("NUMBER = 1\n")
    os.utime(package / "number.py", (1e9, 1e9))
    variables = {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": ""}
    assert python("import twosources.number", **variables).returncode == 0
    (package / "number.py").write_text("NUMBER = 2\n")
    os.utime(package / "number.py", (1e9, 1e9))
    program = """
from openmxu.runtime.sources import Sources
sources = Sources("twosources")
import twosources.number as it
print(it.NUMBER, sources.digest() is not None, sources.still())
"""
    variables["PYTHONPATH"] += os.pathsep + str(ROOT / "hw")
    assert python(program, **variables).stdout == "1 True False\n"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for folder in ("hw", "sim"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def multiply(copy: Path, imports: str = "", edit: tuple[str, str] | None = None) -> str:
    """Whether a new process, whose sources may be edited when it has imported them, says that the netlist is right."""
    program = f"""
import sys
import numpy as np
import openmxu_sim
{imports}
print("imported", flush=True)
sys.stdin.readline()
a, b = np.full((2, 2), 1 + 2**-9, np.float32), np.full((2, 2), 1 + 2**-7 + 2**-23, np.float32)
a[0] = 1 + 2**-7 + 2**-8
found, right = (openmxu_sim.matmul(a, b, rows=2, columns=2, engine=engine) for engine in ("compiled", "golden"))
print("equal" if found.tobytes() == right.tobytes() else "different")
"""
    path = os.pathsep.join([str(copy / "hw"), str(copy / "sim")])
    environment = os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(copy / "cache")}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, **pipes) as process:
        assert process.stdout.readline() == "imported\n"
        if edit:
            replace(copy / ROUND, *edit)
        return process.communicate("\n")[0].strip()


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


@needs_compiler
@pytest.mark.parametrize("imports", ["", slow("import openmxu_sim.engines.compiled.source")])
def test_an_edit_while_a_process_lives(imports: str, copy: Path) -> None:
    """Neither netlist is kept under the other's sources."""
    said = multiply(copy, imports, edit=(RIGHT, TRUNCATING))
    assert said == ("equal" if imports else "different")  # modules that were imported before or after
    assert multiply(copy) == "different"
    replace(copy / ROUND, TRUNCATING, RIGHT)
    assert multiply(copy) == "equal"
