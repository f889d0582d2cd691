"""The array: tile after tile, the next one's weights loaded while one runs."""

import pytest

from ...conftest import Bench


@pytest.mark.slow
@pytest.mark.parametrize(("simulator", "count"), [("verilator", 2000), ("icarus", 50)])
def test_bench(bench: Bench, simulator: str, count: int) -> None:
    bench("array_4x4", count=count, simulator=simulator)
