"""The script that gathers designs of others for a comparison; no design of others is here."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from openmxu.area.subject.peers import read_peers

from ....conftest import load_file, needs_git, ran

_FILES = {
    "hardfloat": "source/{}.v: HardFloat_primitives HardFloat_rawFN isSigNaNRecFN mulRecFN addRecFN mulAddRecFN "
    "fNToRecFN recFNToFN RISCV/HardFloat_specialize",
    "fpnew": "src/fpnew_{}.sv: pkg classifier rounding fma fma_multi",
    "common_cells": "{}: src/cc_pkg.sv src/deprecated/cf_math_pkg.sv src/lzc.sv include/common_cells/registers.svh",
    "essenceia": "src/{}.v: bf16_mul",
    "bfloat16_fma": "SRCS/BF16_{}.v: FMA adder multiplier",
    "chiplab": "rtl/a50_{}.sv: add32_align bf16_mul round_pack",
}
"""Of each project where its files are, and the files."""

_FOLDERS = "the arguments must be a new folder, then NAME=FOLDER"


@pytest.fixture
def gather() -> ModuleType:
    return load_file(Path(__file__).parents[4] / "docs" / "examples" / "peers" / "gather.py")


def made(name: str, where: Path) -> str:
    """A folder with files of the names that a project has, and nothing in them."""
    place, files = _FILES[name].split(": ")
    for file in files.split():
        path = where / f"their {name}" / place.format(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return f"{name}={where}/their {name}"


@pytest.mark.slow
def test_descriptions_fit_the_files(gather: ModuleType, tmp_path: Path) -> None:
    """Each design of each project has its files and wrapper, and a part of ours to stand beside."""
    assert set(_FILES) == set(gather.FOLDERS)
    gather.main([str(tmp_path / "theirs"), *(made(name, tmp_path) for name in _FILES)])
    peers = read_peers(tmp_path / "theirs")
    assert len(peers) == 23
    for peer in peers:
        wrapper = next((tmp_path / "theirs" / name for name in peer.design.files if name.startswith("wrappers/")), None)
        assert wrapper is None or f"module {peer.design.top} " in wrapper.read_text()
        assert peer.ours.component.module_name
    assert len({peer.design.top for peer in peers}) == 23


@needs_git
def test_one_project_alone(gather: ModuleType, tmp_path: Path) -> None:
    """And our parts without subnormals, which are read as theirs are."""
    gather.main([str(tmp_path / "theirs"), made("essenceia", tmp_path)])
    peers = read_peers(tmp_path / "theirs")
    assert [peer.design.name for peer in peers[:2]] == ["Essenceia multiplier", "Essenceia adder"]
    assert not peers[0].version
    for peer in peers[2:]:
        [file] = (tmp_path / "theirs" / name for name in peer.design.files)
        assert f"\nmodule {peer.design.top}(" in file.read_text()
        assert dict(peer.ours.options)["subnormals"] == "ieee"
        assert "flush" in peer.design.top
    assert len(peers) == 6


@needs_git
def test_the_commit_is_the_version(gather: ModuleType, tmp_path: Path) -> None:
    given, there = made("bfloat16_fma", tmp_path), str(tmp_path / "their bfloat16_fma")
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "one"]):
        ran(["git", "-C", there, *command], check=True)
    head = ran(["git", "-C", there, "rev-parse", "HEAD"], check=True).stdout
    gather.main([str(tmp_path / "theirs"), given])
    assert read_peers(tmp_path / "theirs")[0].version.startswith(f"{head[:12]} of 20")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        *((words, f"{_FOLDERS} with hardfloat, ") for words in ([], ["theirs"], ["theirs", "theirs=."])),
        (["theirs", "fpnew=."], "fpnew needs common_cells=FOLDER, too"),
        (["theirs", "essenceia=nowhere"], "essenceia must be a folder with src, not nowhere"),
    ],
)
def test_mistakes(
    arguments: list[str], complaint: str, gather: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        gather.main(arguments)
    assert complaint in str(stop.value)
    assert list(tmp_path.iterdir()) == []
    assert "gather" not in sys.modules
