"""A tool is compiled once, whole, and by one of those that need it; nobody waits for what is there."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from openmxu.runtime.locks import lock
from openmxu.yosys import yowasp

# As the packages do: the compiled code goes where the variable says, in pieces.
FAKE = """
import hashlib, os, pathlib, sys, time

def run(arguments):
    wasm = pathlib.Path(__file__).with_name("fake.wasm").read_bytes()
    file = pathlib.Path(os.environ["YOWASP_CACHE_DIR"], "fake_tool", "fake.wasm", hashlib.sha1(wasm).hexdigest())
    file.parent.mkdir(parents=True)
    with file.open("w") as output:
        for _ in range(10):
            print("part", end="", file=output, flush=True)
            time.sleep(0.02)
    return 0
"""
PREPARE = """
import sys
from openmxu.yosys import yowasp
yowasp.TOOLS["fake"] = ("fake_tool", "run")
yowasp.prepare("fake", lambda line: print("told", flush=True))
print(open(sys.argv[1]).read())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setitem(yowasp.TOOLS, "fake", ("fake_tool", "run"))
    return tmp_path


@pytest.fixture
def place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / "fake_tool.py").write_text(FAKE)
    (folder / "fake.wasm").write_bytes(b"code")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{folder}/cache")
    monkeypatch.setenv("YOWASP_CACHE_DIR", f"{folder}/tools")
    yowasp._place.cache_clear()
    return folder / "tools" / "fake_tool" / "fake.wasm" / hashlib.sha1(b"code").hexdigest()


def test_one_compiles_and_all_find_it_whole(place: Path) -> None:
    command = [sys.executable, "-c", PREPARE, str(place)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=60)[0].split() for process in started]
    assert sorted(said) == [["part" * 10], ["part" * 10], ["told", "part" * 10]]


def test_who_finds_it_waits_for_nobody(place: Path, tmp_path: Path) -> None:
    yowasp.prepare("fake", lambda line: None)
    with lock(tmp_path / "cache" / "openmxu" / "locks" / "fake-tool", what="compiles fake"):
        yowasp.prepare("fake", pytest.fail)


@pytest.mark.parametrize("damaged", [b"part" * 9 + b"par", b"Part" + b"part" * 9, b""], ids=["cut", "flipped", "empty"])
def test_a_damaged_one_is_compiled_again(damaged: bytes, place: Path) -> None:
    yowasp.prepare("fake", lambda line: None)
    assert place.read_bytes() == b"part" * 10
    place.write_bytes(damaged)
    told: list[str] = []
    yowasp.prepare("fake", told.append)
    assert place.read_bytes() == b"part" * 10
    assert told == ["compiling fake for this machine (once, up to a minute)"]


@pytest.mark.parametrize("what", [".", "fake_tool", "fake_tool/fake.wasm", ""])
def test_one_that_others_could_have_written(what: str, place: Path, tmp_path: Path) -> None:
    yowasp.prepare("fake", lambda line: None)
    (tmp_path / "tools" / what if what else place).chmod(0o777)
    with pytest.raises(PermissionError, match=r"can be written by other users; delete it"):
        yowasp.prepare("fake", lambda line: None)


def test_a_tool_that_does_not_run(place: Path, tmp_path: Path) -> None:
    (tmp_path / "fake_tool.py").write_text("def run(arguments):\n    raise SystemExit('no such luck')")
    with pytest.raises(OSError, match=r"^fake of fake-tool cannot be compiled for this machine: no such luck$"):
        yowasp.prepare("fake", lambda line: None)
    assert not place.exists()


def test_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells of the first call, and shows the last messages of a failure."""
    (folder / "fake_tool.py").write_text(
        "import pathlib, time\n\ndef run(arguments):\n    pathlib.Path('made').touch()\n"
        "    time.sleep(float(arguments[1]) if len(arguments) == 2 else 0)\n"
        "    print(*[f'line {n}' for n in range(20)], sep='\\n')\n    return int(arguments[0])\n"
    )
    monkeypatch.setattr(yowasp, "prepare", lambda tool, tell: tell("compiled"))
    work = folder / "work"
    work.mkdir()
    told: list[str] = []
    yowasp.run("fake", ["0"], work, told.append)
    assert told == ["compiled"]
    with monkeypatch.context() as patched:
        patched.setattr(yowasp, "_LIFE", 0)
        yowasp.run("fake", ["0", "0.5"], work, told.append)
    assert told[2:]
    assert all(re.fullmatch(r"fake: \d+ s", line) for line in told[2:])
    assert "made" in os.listdir(work)
    (work / "it.rpt").write_text("all is well\nERROR: Assert `a == b' failed in rtlil.cc:1.\n")
    for arguments, last in (
        (["3"], [f"line {n}" for n in range(20 - yowasp.LOG_LINES, 20)]),
        (["3", "-l", "it.rpt"], ["ERROR: Assert `a == b' failed in rtlil.cc:1."]),  # as Yosys does, told to be quiet
    ):
        with pytest.raises(RuntimeError) as caught:
            yowasp.run("fake", arguments, work, lambda line: None)
        assert str(caught.value).splitlines() == ["fake failed with exit code 3:", *last]


def test_a_tool_that_is_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled; it runs as a module of its package."""
    package = folder / "some_tools"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "pack.py").write_text("import sys; print(sys.argv[1:]); sys.exit(int(sys.argv[1]))")
    monkeypatch.setitem(yowasp.PYTHON, "pack", ("some_tools", "pack"))
    assert yowasp.is_installed("pack")
    assert yowasp.package("pack") == "some-tools"
    yowasp.run("pack", ["0", "x"], folder, pytest.fail)
    assert (folder / "pack.messages").read_text() == "['0', 'x']\n"
    with pytest.raises(RuntimeError, match=r"^pack failed with exit code 3"):
        yowasp.run("pack", ["3"], folder, pytest.fail)
