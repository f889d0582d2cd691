"""Cell libraries on this machine."""

from pathlib import Path

import pytest

from openmxu.area.run.choice import _discover
from openmxu.cells import libraries
from openmxu.cells.liberty import generic_library

LIBRARIES = (
    "pdk/sky130A/libs.ref/sky130_fd_sc_hd/lib/sky130_fd_sc_hd__tt_025C_1v80.lib",
    "pdk/gf180mcuD/libs.ref/gf180mcu_fd_sc_mcu7t5v0/lib/gf180mcu_fd_sc_mcu7t5v0__tt_025C_5v00.lib",
    "pdk/ihp-sg13g2/libs.ref/sg13g2_stdcell/lib/sg13g2_stdcell_typ_1p20V_25C.lib.gz",
    "qflow/tech/osu018/osu018_stdcells.lib",
)


def test_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, and used for a full report only; one of no use hinders nothing, and none is used twice."""
    there = [tmp_path / name for name in LIBRARIES]
    for path in there:
        path.parent.mkdir(parents=True)
        path.write_bytes(generic_library().text.replace(b"openmxu_generic", path.stem.encode()))
    monkeypatch.setenv("PDK_ROOT", str(tmp_path / "pdk"))
    monkeypatch.setattr(libraries, "_QFLOW", tmp_path / "qflow")
    sources = ["PDK_ROOT", "PDK_ROOT", "PDK_ROOT", "qflow"]
    assert libraries.found_libraries() == list(zip(there, sources, strict=True))
    lines: list[str] = []
    assert _discover([], "default", lines.append) == []
    assert "osu018_stdcells: measured with --full, or --liberty FILE" in lines.pop()
    there[3].write_text("no library")
    names = [library.name for library in _discover([], "full", lines.append)]
    assert names == [path.stem for path in there[:3]]
    assert "of no use: " in lines[-1]
    assert lines[-1].endswith("must contain exactly one Liberty library")
    known = generic_library()
    there[0].write_bytes(known.text)
    assert [library.name for library in _discover([known], "full", lines.append)] == names[1:]
    assert "given already" in lines[-4]


def test_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PDK_ROOT", raising=False)
    monkeypatch.setattr(libraries, "_QFLOW", tmp_path)
    assert (libraries.found_libraries(), libraries.named_libraries()) == ([], [])
    monkeypatch.setenv("OPENMXU_LIBERTY", "/a/one.lib:two.lib.gz")
    assert libraries.named_libraries() == [Path("/a/one.lib"), Path("two.lib.gz")]
