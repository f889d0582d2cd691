"""The array: tile after tile, the next one's weights loaded while one runs."""

import pytest

from ...conftest import Bench


@pytest.mark.slow
def test_bench(bench: Bench) -> None:
    bench("array_4x4")


@pytest.mark.slow
def test_icarus(bench: Bench) -> None:
    bench("array_4x4", count=200, simulator="icarus")
