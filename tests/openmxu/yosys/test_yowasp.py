"""A tool is compiled once, whole, and by one of those that need it; nobody waits for what is there."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
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
            output.write("part")
            output.flush()
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
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tool called ``fake``; where it is to be found when it is compiled."""
    (tmp_path / "fake_tool.py").write_text(FAKE)
    (tmp_path / "fake.wasm").write_bytes(b"code")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setitem(yowasp.TOOLS, "fake", ("fake_tool", "run"))
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")
    monkeypatch.setenv("YOWASP_CACHE_DIR", f"{tmp_path}/tools")
    yowasp._place.cache_clear()
    return tmp_path / "tools" / "fake_tool" / "fake.wasm" / hashlib.sha1(b"code").hexdigest()


def test_one_compiles_and_all_find_it_whole(place: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", PREPARE, place], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    said = [process.communicate(timeout=60)[0].split() for process in started]
    assert sorted(said) == [["part" * 10], ["part" * 10], ["told", "part" * 10]]


def test_who_finds_it_waits_for_nobody(place: Path, tmp_path: Path) -> None:
    yowasp.prepare("fake", lambda line: None)
    with lock(tmp_path / "cache" / "openmxu" / "locks" / "fake-tool", what="compiles fake"):
        yowasp.prepare("fake", pytest.fail)


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: b"Part" + data[4:], lambda data: b""],
    ids=["cut", "flipped", "empty"],
)
def test_a_damaged_one_is_compiled_again(damage: Callable[[bytes], bytes], place: Path) -> None:
    yowasp.prepare("fake", lambda line: None)
    whole = place.read_bytes()
    place.write_bytes(damage(whole))
    told: list[str] = []
    yowasp.prepare("fake", told.append)
    assert place.read_bytes() == whole
    assert told == ["compiling fake for this machine (once, up to a minute)"]


@pytest.mark.parametrize("what", [".", "fake_tool", "fake_tool/fake.wasm", ""])
def test_one_that_others_could_have_written(what: str, place: Path, tmp_path: Path) -> None:
    yowasp.prepare("fake", lambda line: None)
    path = tmp_path / "tools" / what if what else place
    path.chmod(0o777)
    with pytest.raises(PermissionError, match=r"can be written by other users; delete it"):
        yowasp.prepare("fake", lambda line: None)


def test_a_tool_that_does_not_run(place: Path, tmp_path: Path) -> None:
    (tmp_path / "fake_tool.py").write_text("def run(arguments):\n    raise SystemExit('no such luck')")
    with pytest.raises(OSError, match=r"^fake of fake-tool cannot be compiled for this machine: no such luck$"):
        yowasp.prepare("fake", lambda line: None)
    assert not place.exists()


FAKE_TOOL = """
def run(arguments):
    print(*[f"line {n}" for n in range(20)], sep="\\n")
    open("made", "w").close()
    return int(arguments[0])
"""


@pytest.fixture
def fake_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tool called ``fake``; returns a directory to run it in."""
    (tmp_path / "fake_tool.py").write_text(FAKE_TOOL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setitem(yowasp.TOOLS, "fake", ("fake_tool", "run"))
    monkeypatch.setattr(yowasp, "prepare", lambda tool, tell: tell("compiled"))
    work = tmp_path / "work"
    work.mkdir()
    return work


def test_run_tells_of_the_first_call(fake_tool: Path) -> None:
    told: list[str] = []
    yowasp.run("fake", ["0"], fake_tool, told.append)
    assert told == ["compiled"]
    assert "made" in os.listdir(fake_tool)


@pytest.mark.parametrize(
    ("arguments", "last"),
    [
        (["3"], [f"line {n}" for n in range(20 - yowasp.LOG_LINES, 20)]),
        (["3", "-l", "it.rpt"], ["ERROR: Assert `a == b' failed in rtlil.cc:1."]),  # as Yosys does, told to be quiet
    ],
)
def test_run_shows_the_last_messages_of_a_failure(arguments: list[str], last: list[str], fake_tool: Path) -> None:
    """Be they in a log only."""
    (fake_tool / "it.rpt").write_text("all is well\nERROR: Assert `a == b' failed in rtlil.cc:1.\n")
    with pytest.raises(RuntimeError) as caught:
        yowasp.run("fake", arguments, fake_tool, lambda line: None)
    assert str(caught.value).splitlines() == ["fake failed with exit code 3:", *last]


def test_a_tool_that_is_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled; it runs as a module of its package."""
    package = tmp_path / "some_tools"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "pack.py").write_text("import sys; print(sys.argv[1:]); sys.exit(int(sys.argv[1]))")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(yowasp.PYTHON, "pack", ("some_tools", "pack"))
    assert yowasp.is_installed("pack")
    assert yowasp.package("pack") == "some-tools"
    yowasp.run("pack", ["0", "x"], tmp_path, pytest.fail)
    assert (tmp_path / "pack.messages").read_text() == "['0', 'x']\n"
    with pytest.raises(RuntimeError, match=r"^pack failed with exit code 3"):
        yowasp.run("pack", ["3"], tmp_path, pytest.fail)
