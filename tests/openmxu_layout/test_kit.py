"""Files of a kit: found wherever they lie, by digest, and copied; one line says what is missing."""

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from openmxu_layout import kit
from openmxu_layout.kit import copy_files, digest, read_contents

from .conftest import IHP


def _wanted(name: str, content: bytes) -> dict[str, dict[str, str]]:
    return {"cells": {"name": name, "sha256": hashlib.sha256(content).hexdigest()}}


def test_file_is_found_below_any_folder(tmp_path: Path) -> None:
    """What changes after its digest was compared is not used."""
    (tmp_path / "old").mkdir()
    (tmp_path / "pdk/lef").mkdir(parents=True)
    (tmp_path / "old/cells.lef").write_bytes(b"old")
    (tmp_path / "pdk/lef/cells.lef").write_bytes(b"new")
    files = copy_files([tmp_path], _wanted("cells.lef", b"new"), tmp_path / "copies")
    (tmp_path / "pdk/lef/cells.lef").write_bytes(b"changed")
    assert files == {"cells": tmp_path / "copies/cells.lef"}
    assert files["cells"].read_bytes() == b"new"


def test_packed_file_is_known_by_its_content(tmp_path: Path) -> None:
    packed = tmp_path / "cells.lib.gz"
    packed.write_bytes(gzip.compress(b"library"))
    assert copy_files([packed], _wanted("cells.lib*", b"library"), tmp_path)["cells"].read_bytes() == b"library"


def test_digest_of_a_folder_covers_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/rule").write_bytes(b"rule")
    line = f"{hashlib.sha256(b'rule').hexdigest()} inner/rule\n"
    assert digest(read_contents(tmp_path)) == hashlib.sha256(line.encode()).hexdigest()
    (tmp_path / "inner/rule").rename(tmp_path / "inner/other")
    assert digest(read_contents(tmp_path)) != hashlib.sha256(line.encode()).hexdigest()


def test_a_deck_stands_beside_the_rules_that_have_the_digest(tmp_path: Path) -> None:
    """Two versions of a kit: the deck lies beside rules of the other one, and KLayout reads those beside the deck."""
    for name, rule in (("a", b"evil"), ("b", b"right")):
        (tmp_path / name / "rules").mkdir(parents=True)
        (tmp_path / name / "rules/rule").write_bytes(rule)
    (tmp_path / "a/deck").write_bytes(b"deck")
    rules = f"{hashlib.sha256(b'right').hexdigest()} rule\n".encode()
    wanted = _wanted("deck", b"deck") | {"rules": _wanted("rules", rules)["cells"]}
    deck = copy_files([tmp_path / "a", tmp_path / "b"], wanted, tmp_path / "copies")["cells"]
    assert (deck.parent / "rules/rule").read_bytes() == b"right"


def _cut(path: Path) -> None:
    path.write_bytes(gzip.compress(b"right")[:-3])


def _damage(path: Path) -> None:
    content = bytearray(gzip.compress(b"right"))
    content[-6] ^= 1
    path.write_bytes(content)


def _large(path: Path) -> None:
    path.write_bytes(gzip.compress(bytes(3000)))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (None, "there is none"),
        (lambda path: path.write_bytes(b"other"), "is another version"),
        (os.mkfifo, "is no plain file"),
        (lambda path: path.symlink_to("/dev/zero"), "is no plain file"),
        (lambda path: path.symlink_to("nowhere"), "No such file or directory: "),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links: "),
        (Path.mkdir, "is another version"),
        (_cut, "it must be a whole gzip file: "),
        (_damage, "it must be a whole gzip file: "),
        (_large, "it must have at most 1,000 bytes, unpacked"),
    ],
)
def test_other_file_is_one_line_and_in_the_way_of_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object] | None, problem: str
) -> None:
    monkeypatch.setattr(kit, "_MOST", 1000)
    (tmp_path / "pdk").mkdir()
    if make is not None:
        make(tmp_path / "pdk/cells.lef")
    wanted = _wanted("cells.lef", b"right")
    with pytest.raises(ValueError, match=rf"^pdk must hold cells\.lef with SHA-256 .* below .*/pdk: .*{problem}.*$"):
        copy_files([tmp_path / "pdk"], wanted, tmp_path / "copies")
    (tmp_path / "pdk/right").mkdir()
    (tmp_path / "pdk/right/cells.lef").write_bytes(b"right")
    assert copy_files([tmp_path / "pdk"], wanted, tmp_path / "copies")["cells"].read_bytes() == b"right"


def test_a_folder_is_of_plain_files_with_printable_names_and_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the text of a digest, a name with a line's end could stand for two files."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "two").write_bytes(bytes(600))
    assert list(read_contents(tmp_path)) == ["two"]
    (tmp_path / "more").write_bytes(bytes(600))
    monkeypatch.setattr(kit, "_MOST", 1000)
    with pytest.raises(ValueError, match=": it must have at most 400 bytes"):
        read_contents(tmp_path)
    (tmp_path / "more\n").write_bytes(b"")
    (tmp_path / "more").unlink()
    with pytest.raises(ValueError, match="has a file whose name cannot be printed, "):
        read_contents(tmp_path)


def test_kit_has_buffers_of_cells_and_pins() -> None:
    assert IHP.kit.clock_buffer.cell == "sg13g2_buf_8"
    assert (IHP.kit.buffer.input, IHP.kit.buffer.output) == ("A", "X")
