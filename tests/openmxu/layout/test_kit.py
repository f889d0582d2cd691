"""Files of a kit: found wherever they lie, by digest; one line says what is missing."""

import gzip
import hashlib
from pathlib import Path

import pytest

from openmxu.layout.kit import digest, find_files

from .conftest import IHP


def _wanted(name: str, content: bytes) -> dict[str, dict[str, str]]:
    return {"cells": {"name": name, "sha256": hashlib.sha256(content).hexdigest()}}


def test_file_is_found_below_any_folder(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "pdk/lef").mkdir(parents=True)
    (tmp_path / "old/cells.lef").write_bytes(b"old")
    (tmp_path / "pdk/lef/cells.lef").write_bytes(b"new")
    assert find_files([tmp_path], _wanted("cells.lef", b"new")) == {"cells": tmp_path / "pdk/lef/cells.lef"}


def test_packed_file_is_known_by_its_content(tmp_path: Path) -> None:
    packed = tmp_path / "cells.lib.gz"
    packed.write_bytes(gzip.compress(b"library"))
    assert find_files([packed], _wanted("cells.lib*", b"library")) == {"cells": packed}


def test_digest_of_a_folder_covers_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/rule").write_bytes(b"rule")
    line = f"{hashlib.sha256(b'rule').hexdigest()} inner/rule\n"
    assert digest(tmp_path) == hashlib.sha256(line.encode()).hexdigest()
    (tmp_path / "inner/rule").rename(tmp_path / "inner/other")
    assert digest(tmp_path) != hashlib.sha256(line.encode()).hexdigest()


@pytest.mark.parametrize(("content", "problem"), [(None, "there is none"), (b"other", "cells.lef is another version")])
def test_missing_or_other_file_is_one_line(tmp_path: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "cells.lef").write_bytes(content)
    with pytest.raises(ValueError, match=rf"^pdk must hold cells\.lef with SHA-256 .* below {tmp_path}: .*{problem}$"):
        find_files([tmp_path], _wanted("cells.lef", b"right"))


def test_kit_has_buffers_of_cells_and_pins() -> None:
    assert IHP.kit.clock_buffer.cell == "sg13g2_buf_8"
    assert (IHP.kit.buffer.input, IHP.kit.buffer.output) == ("A", "X")
