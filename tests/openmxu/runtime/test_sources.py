"""What is kept under a digest of the sources was made by these sources, whatever happens to them meanwhile."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openmxu.runtime.sources import Sources
from openmxu_sim.netlist.native import CompilerNotFoundError, find_compiler

from ...conftest import slow
from .conftest import python

ROOT = Path(__file__).parents[3]
ROUND = "hw/openmxu/arith/datapath/round.py"
RIGHT, TRUNCATING = "return kept, guard & (kept[0]", "return kept, Const(0, 1) & (kept[0]"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two modules that can be imported."""
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


@pytest.mark.parametrize("change", ["edited", "taken back", "C edited", "deleted", "added", "renamed"])
def test_sources_that_change(change: str, package: Path) -> None:
    sources = Sources("twosources")
    before = sources.digest()
    target = package / ("text.c" if change == "C edited" else "number.py")
    content = target.read_text()
    if change == "deleted":
        target.unlink()
    elif change == "renamed":
        target.rename(package / "numbers.py")
    elif change == "added":
        (package / "other.py").touch()
    else:
        target.write_text(content.replace("1", "2") + " ")
    if change == "taken back":
        status = target.stat()
        target.write_text(content)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
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


def test_no_files() -> None:
    assert Sources("no_such_package_at_all").digest() is None


# Multiplies on the unit's netlist, once a line has been read, and says whether the bits are the definition's.
USER = """\
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


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the project's packages."""
    try:
        find_compiler()
    except CompilerNotFoundError as error:
        pytest.skip(str(error))
    for folder in ("hw", "sim"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def multiply(copy: Path, imports: str = "", edit: tuple[str, str] | None = None) -> str:
    """What a new process says; if asked, its sources are edited when it has imported them."""
    path = os.pathsep.join([str(copy / "hw"), str(copy / "sim")])
    environment = os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(copy / "cache")}
    command = [sys.executable, "-c", USER.format(imports=imports)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "imported\n"
        if edit:
            replace(copy / ROUND, *edit)
        process.stdin.write("\n")
        process.stdin.close()
        return process.stdout.read().strip()


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("imports", ["", slow("import openmxu_sim.engines.compiled.source")])
def test_an_edit_while_a_process_lives(imports: str, copy: Path) -> None:
    """Neither netlist is kept under the other's sources."""
    said = multiply(copy, imports, edit=(RIGHT, TRUNCATING))
    assert said == ("equal" if imports else "different")  # modules that were imported before or after
    assert multiply(copy) == "different"
    replace(copy / ROUND, TRUNCATING, RIGHT)
    assert multiply(copy) == "equal"
