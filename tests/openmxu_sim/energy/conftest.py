"""Measurements that are short enough for tests, and the cell libraries that this machine has."""

import os
from pathlib import Path

import pytest

from openmxu.area.target.timing import find_sta
from openmxu.cells.liberty import Library, read_library
from openmxu_sim.energy import meter

needs_sta = pytest.mark.skipif(not find_sta(), reason="OpenSTA is not installed")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "STRETCHES", 32)
    monkeypatch.setattr(meter, "SEEDS", 2)


@pytest.fixture(params=os.environ.get("OPENMXU_LIBERTY", "").split(os.pathsep))
def real_library(request: pytest.FixtureRequest) -> Library:
    if not request.param:
        pytest.skip("the variable OPENMXU_LIBERTY names no cell library")
    return read_library(Path(request.param))
