"""The technology that tests lay out in, and the files of its kit, which are not ours: OPENMXU_PDK names a folder."""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from openmxu.area.target.libraries import named_libraries
from openmxu.layout.cells import Cell, read_cells
from openmxu.layout.kit import Kit, find_files
from openmxu.layout.technology import Technology, technology

_NAME = "ihp_sg13g2"


@pytest.fixture(scope="session")
def ihp() -> Technology:
    """The technology."""
    return technology(_NAME)


@pytest.fixture(scope="session")
def ihp_kit(ihp: Technology) -> Kit:
    """Its kit."""
    return ihp.kit


@pytest.fixture(scope="session")
def pdk(ihp_kit: Kit) -> dict[str, Path]:
    """The kit's files and decks."""
    folder = os.environ.get("OPENMXU_PDK")
    if not folder:
        pytest.skip("OPENMXU_PDK names no folder with the files of IHP SG13G2")
    return find_files([Path(folder), *named_libraries()], {**ihp_kit.files, **ihp_kit.decks})


@pytest.fixture(scope="session")
def library(pdk: dict[str, Path]) -> Mapping[str, Cell]:
    """The kit's cells."""
    return _cells(pdk["cells"])


@cache
def _cells(path: Path) -> Mapping[str, Cell]:
    return read_cells(path.read_text())
