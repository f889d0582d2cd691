"""Counters and the error code, beside a unit at work."""

import pytest

from ..conftest import Bench


@pytest.mark.slow
def test_bench(bench: Bench) -> None:
    bench("mxu_2x2_status")


@pytest.mark.slow
def test_icarus(bench: Bench) -> None:
    """A short bank, which is the sooner full."""
    bench("mxu_2x2_status", {"depth": 32}, count=200, simulator="icarus")
