"""The script that gathers designs of others for a comparison; no design of others is here."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from openmxu.area.peers import read_peers

_FILES = {
    "hardfloat": [
        *(
            f"source/{name}"
            for name in (
                *("HardFloat_primitives.v", "HardFloat_rawFN.v", "isSigNaNRecFN.v", "mulRecFN.v", "addRecFN.v"),
                *("mulAddRecFN.v", "fNToRecFN.v", "recFNToFN.v", "RISCV/HardFloat_specialize.v"),
            )
        )
    ],
    "fpnew": [f"src/fpnew_{name}.sv" for name in ("pkg", "classifier", "rounding", "fma", "fma_multi")],
    "common_cells": [
        "src/cc_pkg.sv",
        "src/deprecated/cf_math_pkg.sv",
        "src/lzc.sv",
        "include/common_cells/registers.svh",
    ],
    "essenceia": ["src/bf16_mul.v"],
    "bfloat16_fma": [f"SRCS/BF16_{name}.v" for name in ("FMA", "adder", "multiplier")],
}


@pytest.fixture
def gather() -> ModuleType:
    """The script, from its file: it belongs to no package."""
    path = Path(__file__).parents[3] / "docs" / "examples" / "peers" / "gather.py"
    spec = importlib.util.spec_from_file_location("gather", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made(name: str, where: Path) -> str:
    """A folder with files of the names that a project has, and nothing in them."""
    for file in _FILES[name]:
        path = where / f"their {name}" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return f"{name}={where}/their {name}"


def test_descriptions_fit_the_files(gather: ModuleType, tmp_path: Path) -> None:
    """Each design of each project has its files and wrapper, and a part of ours to stand beside."""
    assert set(_FILES) == set(gather.FOLDERS)
    gather.main([str(tmp_path / "theirs"), *(made(name, tmp_path) for name in _FILES)])
    peers = read_peers(tmp_path / "theirs")
    assert len(peers) == 14
    for peer in peers:
        wrapper = next((tmp_path / "theirs" / name for name in peer.files if name.startswith("wrappers/")), None)
        assert wrapper is None or f"module {peer.top} " in wrapper.read_text()
        assert peer.ours.component.module_name
    assert len({peer.top for peer in peers}) == 14


def test_one_project_alone(gather: ModuleType, tmp_path: Path) -> None:
    gather.main([str(tmp_path / "theirs"), made("essenceia", tmp_path)])
    assert [peer.name for peer in read_peers(tmp_path / "theirs")] == ["Essenceia multiplier", "Essenceia adder"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "the arguments must be a new folder, then NAME=FOLDER with hardfloat, "),
        (["theirs"], "the arguments must be a new folder, then NAME=FOLDER"),
        (["theirs", "theirs=."], "the arguments must be a new folder, then NAME=FOLDER"),
        (["theirs", "fpnew=."], "fpnew needs common_cells=FOLDER, too"),
        (["theirs", "essenceia=nowhere"], "essenceia must be a folder with src, not nowhere"),
    ],
)
def test_mistakes(
    arguments: list[str], complaint: str, gather: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, and nothing is made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        gather.main(arguments)
    assert complaint in str(stop.value)
    assert list(tmp_path.iterdir()) == []
    assert "gather" not in sys.modules
