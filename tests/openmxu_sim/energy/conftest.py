"""Measurements that are short enough for tests."""

import pytest

from openmxu_sim.energy import meter


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "STRETCHES", 32)
    monkeypatch.setattr(meter, "SEEDS", 2)
