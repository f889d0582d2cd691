"""The unit on a bus, driven by AXI ends that are not ours."""

import pytest

from ..conftest import Bench


def test_bench(bench: Bench) -> None:
    bench("mxu_2x2_axi")


@pytest.mark.slow
def test_all_options(bench: Bench) -> None:
    """In Icarus; Verilator runs the plain one above."""
    options = {"rows": 2, "columns": 1, "depth": 8, "splitter": True, "result": "bf16"}
    bench("mxu_2x2_axi", options, count=500, simulator="icarus", timeout=240)
