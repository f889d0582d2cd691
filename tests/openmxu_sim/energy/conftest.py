"""Measurements that are short enough for tests."""

import pytest

from openmxu.area.target.timing import find_sta
from openmxu_sim.energy import meter

needs_sta = pytest.mark.skipif(not find_sta(), reason="OpenSTA is not installed")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "STRETCHES", 32)
    monkeypatch.setattr(meter, "SEEDS", 2)
