"""Damaged files: each reader takes them or refuses them in a line; and each reader of the project is a row."""

import ast
import os
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType

import pytest

from ..conftest import ran
from .readers import READERS

_ROOT = Path(__file__).parents[2]

_INPUTS = 200
"""Damaged files for each reader, in a round."""


@pytest.mark.torture
@pytest.mark.parametrize("name", READERS)
def test_damaged_files(name: str, seed: str, rounds: int, tmp_path: Path) -> None:
    if READERS[name].absent():
        pytest.skip(f"{READERS[name].needs} is not installed")
    command = [sys.executable, "-m", "tests.torture.fuzz", name, seed, "0", str(rounds * _INPUTS), str(tmp_path)]
    done = ran(command, cwd=_ROOT, timeout=300 * rounds, env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)})
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-2000:]}inputs are in {tmp_path}; {' '.join(command)}"


# What a function with a call of these reads is a file, or text of one; resources of the packages apart.
_CALLS = re.compile(
    r"json\.loads?|np\.load|np\.frombuffer|np\.lib\.format\.read_\w+|onnx\.load\w*|ElementTree\.\w+|tomllib\.\w+|csv\.reader"
    r"|(files\.)?(read|open)_input|gdstk\.read_\w+|zipfile\.ZipFile|gzip\.\w+|pickle\.loads?|Image\.open|\w+\.unpack(_from)?|int\.from_bytes"
    r"|(?!.*(resource|files\())[^\n]*\.read_(text|bytes)|(path|file|report)\.open"
)
_NAMES = re.compile(r"read_\w+|parse(_\w+)?|(of|from)_json")
"""Names of readers of text that another function has read."""

_NOT_FUZZED = {
    "what this process, or a child of it that has ended well, has just written": (
        *("openmxu.runtime.callee", "openmxu.runtime.process", "openmxu.runtime.native"),
        *(
            "openmxu.yosys*",
            "openmxu_evidence.formal.solvers",
            "openmxu.area.run.job",
            "openmxu_layout.place.synthesis",
            "openmxu_layout.place.described",
        ),
        *("openmxu_layout.check.decks.check_*", "openmxu_layout.drawing.picture", "openmxu_layout.flow.steps"),
        *("openmxu_sim.cosim.*", "openmxu_sim.engines.*", "openmxu_sim.energy.meter", "openmxu_sim.energy.timed"),
        *("openmxu_evidence.verify.*", "openmxu_evidence.benches.*", "openmxu_evidence.exploration.*"),
        *("openmxu_sim.netlist.rtlil", "openmxu_sim.wave.page.wasm", "openmxu_sim.jax.*"),
        *("openmxu_boards.bitstream.flow", "openmxu_boards.bitstream.plan", "openmxu_boards.bitstream.route"),
        *(
            "openmxu_boards.simulated.*",
            "openmxu_boards.families.ice40.unpack",
            "openmxu.runtime.cache.pack",
            "openmxu_sim.operands.stimulus",
        ),
    ),
    "entries of the cache, whose digest the row cache damages": (
        "openmxu.runtime.cache.unpack",
        "openmxu_layout.flow.kept",
        "openmxu.runtime.machine.Record.of_json",
    ),
    "files that are known by their digest": ("openmxu_layout.drawing.gds", "openmxu_layout.check.rails"),
    "what the kernel says": ("openmxu.runtime.locks.holder",),
    "resources of the packages": (
        "openmxu_boards.families.family.Family.models",
        "openmxu.runtime.extras",
        "openmxu_layout.technology",
        "openmxu_layout.kit.read_kit",
    ),
    "Yosys reads the design": (
        "openmxu.area.subject.given.read_given",
        "openmxu.area.subject.given._unread",
        *("openmxu.area.subject.foreign.Foreign.read*", "openmxu.area.subject.peers.Ours.read*"),
    ),
    "the command line": ("openmxu.cli.frame",),
    "writes, or makes numbers of bits": (
        *("openmxu_sim.operands.npy.to_npz", "openmxu_sim.accelerator.container.write_network"),
        *("openmxu.unit.axi", "openmxu_boards.selftest", "openmxu_boards.host.*"),
    ),
    "what is read by rows of its own, joined": (
        *(
            "openmxu_boards.commands",
            "openmxu_boards.replay.folder.read_build",
            "openmxu_boards.families.ice40.ice40_reader",
        ),
        *("openmxu_boards.replay.verdict",),
    ),
}
"""Readers of the project that are no rows, by module or function; and why."""


def _readers() -> Iterator[str]:
    """The functions of the packages that read, each with its module."""
    for root in ("hw", "sim", "boards", "tests/evidence"):
        for path in (_ROOT / root).rglob("*.py"):
            module = ".".join(path.relative_to(_ROOT / root).with_suffix("").parts).removesuffix(".__init__")
            nodes: list[tuple[str, ast.AST]] = [(module, ast.parse(path.read_text()))]
            for name, node in nodes:
                for inner in ast.iter_child_nodes(node):
                    named = isinstance(inner, ast.FunctionDef | ast.ClassDef)
                    nodes.append((f"{name}.{inner.name}" if named else name, inner))  # type: ignore[attr-defined]
                if isinstance(node, ast.FunctionDef) and _NAMES.fullmatch(node.name):
                    yield name
                if isinstance(node, ast.Call) and _CALLS.fullmatch(ast.unparse(node.func)) and name != module:
                    yield name


def _called(name: str, folder: Path) -> set[str]:
    """The functions that the reader of a row calls for a whole file."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            module = frame.f_globals.get("__name__", "").removesuffix(".__init__")
            called.add(f"{module}.{frame.f_code.co_qualname}".replace(".<locals>", "").removesuffix(".<lambda>"))

    reader = READERS[name]
    for content in reader.seeds():
        path = folder / reader.file
        path.write_bytes(content)
        sys.setprofile(note)
        try:
            reader.read(path)
        finally:
            sys.setprofile(None)
    return called


def test_each_reader_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that reads files is called by a row, for a whole file; or it is known why not."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if absent := [row.needs for row in READERS.values() if row.absent()]:
        pytest.skip(f"{absent[0]} is not installed")
    called = set().union(*(_called(name, tmp_path) for name in READERS))
    exempt = [pattern for patterns in _NOT_FUZZED.values() for pattern in patterns]
    left = sorted({*_readers()} - called)
    unknown = [name for name in left if not any(fnmatch(name, each) or fnmatch(name, f"{each}.*") for each in exempt)]
    assert not unknown, "these read files: give them a row in tests/torture/readers.py"
    idle = [each for each in exempt if not any(fnmatch(name, each) or fnmatch(name, f"{each}.*") for name in left)]
    assert not idle, "these are rows, or are there no more"
