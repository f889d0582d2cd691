"""Torture: minutes of damage, under `make torture`. Everything random follows from a seed, which is shown."""

import os
import time

import pytest

_SEED, _SECONDS = "OPENMXU_TORTURE_SEED", "OPENMXU_TORTURE_SECONDS"


def pytest_configure() -> None:
    """The day is the seed, in all processes; seconds are for each reader and each command."""
    os.environ.setdefault(_SEED, time.strftime("%Y%m%d"))
    os.environ.setdefault(_SECONDS, "5")


def pytest_report_header() -> str:
    """How to run it again."""
    return f"torture: {_SEED}={os.environ[_SEED]} {_SECONDS}={os.environ[_SECONDS]}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked, unless ``-m`` names the mark."""
    if "torture" not in config.getoption("markexpr"):
        left_out = [item for item in items if item.get_closest_marker("torture")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def seed() -> str:
    """The seed of this run."""
    return os.environ[_SEED]


@pytest.fixture
def seconds() -> float:
    """Seconds for a reader, or a command."""
    return float(os.environ[_SECONDS])
