"""Torture: minutes of damage, under `make torture`. What is random follows from a seed and a count, which are shown."""

import os
import time

import pytest

_SEED, _ROUNDS = "OPENMXU_TORTURE_SEED", "OPENMXU_TORTURE_ROUNDS"


def pytest_configure() -> None:
    """The day is the seed, in all processes."""
    os.environ.setdefault(_SEED, time.strftime("%Y%m%d"))
    os.environ.setdefault(_ROUNDS, "1")


def pytest_report_header() -> str:
    """How to run it again."""
    return f"torture: {_SEED}={os.environ[_SEED]} {_ROUNDS}={os.environ[_ROUNDS]}"


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
def rounds() -> int:
    """How many times the usual number of inputs and command lines."""
    return int(os.environ[_ROUNDS])
