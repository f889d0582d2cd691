"""The technology that tests lay out in, and the files of its kit, which are not ours: OPENMXU_PDK names a folder."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from openmxu.cells.lef import LefCell, read_cells
from openmxu.cells.libraries import named_libraries
from openmxu_layout.kit import copy_files
from openmxu_layout.technology import technology

IHP = technology("ihp_sg13g2")

needs_klayout = pytest.mark.skipif(shutil.which("klayout") is None, reason="KLayout is not installed")


@pytest.fixture(scope="session")
def pdk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Copies of the kit's files and decks, in one folder."""
    folder = os.environ.get("OPENMXU_PDK")
    if not folder:
        pytest.skip("OPENMXU_PDK names no folder with the files of IHP SG13G2")
    wanted = {**IHP.kit.files, **IHP.kit.decks}
    return copy_files([Path(folder), *named_libraries()], wanted, tmp_path_factory.mktemp("pdk"))


@pytest.fixture(scope="session")
def library(pdk: dict[str, Path]) -> Mapping[str, LefCell]:
    """The kit's cells."""
    return read_cells(pdk["cells"].read_text())
