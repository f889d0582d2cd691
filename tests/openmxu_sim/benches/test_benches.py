"""Every design of up to 64 processing elements passes its test bench, and broken ones do not."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openmxu.arith import round as rounding
from openmxu.catalog import CATALOG
from openmxu_sim.benches import Task, run_bench
from openmxu_sim.cosim.runner import SimulationError
from openmxu_sim.cosim.simulators import SimulatorNotFoundError, load_simulator

DESIGNS = [name for name, design in CATALOG.items() if design.cells <= 64]

VARIANTS = [
    # The accumulator bank shorter than the adders' latency, the array taller than wide.
    pytest.param({"rows": 3, "columns": 2, "stages": 7, "depth": 4, "subnormals": "ieee"}, marks=pytest.mark.slow),
    # The smallest of everything, a format without infinities, no converters at the edge.
    {"rows": 1, "columns": 3, "stages": 2, "depth": 2, "operand": "fp8_e4m3", "source": "fp8_e4m3"},
]


def require(simulator: str) -> None:
    """Skip the test where the simulator is not installed."""
    try:
        load_simulator(simulator)
    except SimulatorNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture
def vcd(request: pytest.FixtureRequest) -> Path | None:
    """A waveform named by the test, in the folder that OPENMXU_WAVES names; none if it is not set."""
    folder = os.environ.get("OPENMXU_WAVES")
    return Path(folder, re.sub(r"[^\w-]+", "_", request.node.name) + ".vcd") if folder else None


_SLOW = (
    "product",
    "multiplier_ieee",
    "multiplier_fp16",
    "multiplier_bf16",
    "multiplier_fp32",
    "adder",
    "adder_ieee",
    "converter_ieee",
    "splitter_ieee",
    "stream_multiplier",
    "stream_converter",
    "pe_ieee",
    "mxu_2x2_splitter",
    "mxu_2x2_bf16",
    "mxu_4x4",
    "mxu_4x4_ieee",
    "mxu_4x4_pipelined",
    "mxu_8x8",
)
"""Neighbours of a design that every test run has."""


@pytest.mark.parametrize(
    "design", [pytest.param(name, marks=[pytest.mark.slow] if name in _SLOW else []) for name in DESIGNS]
)
def test_verilator(design: str, vcd: Path | None) -> None:
    require("verilator")
    assert run_bench(Task(design), vcd=vcd, timeout=120)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_units_off_the_catalog(variant: Mapping[str, Any], vcd: Path | None) -> None:
    require("verilator")
    assert run_bench(Task("mxu", variant, count=500), vcd=vcd, timeout=120)


@pytest.mark.slow
def test_all_options_on_a_bus(vcd: Path | None) -> None:
    """In Icarus; Verilator runs the plain one above."""
    require("icarus")
    options = {"rows": 2, "columns": 1, "depth": 8, "splitter": True, "result": "bf16"}
    assert run_bench(Task("mxu_2x2_axi", options, count=500), simulator="icarus", vcd=vcd, timeout=240)


# Icarus runs 16 processing elements at some hundred cycles per second: one design of each family, few vectors,
# and a short accumulator bank, which is the sooner full.
@pytest.mark.parametrize(
    "design",
    [
        "adder_pipelined",
        "pe_pipelined",
        "mxu_2x2_status",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("product", "multiplier", "converter", "stream_adder", "array_4x4")
        ),
    ],
)
def test_icarus(design: str, vcd: Path | None) -> None:
    require("icarus")
    short = {"depth": 32} if CATALOG[design].family == "mxu" else {}
    assert run_bench(Task(design, short, count=200), simulator="icarus", vcd=vcd, timeout=120)


def delayed_swap(verilog: str) -> str:
    """Verilog in which processing elements pass the swap mark on a cycle late."""
    found = re.subn(
        r"always @\(posedge clk\)\n\s*o_swap <= (.+);",
        r"reg late = 0; always @(posedge clk) begin late <= \1; o_swap <= late; end",
        verilog,
    )
    assert found[1] == 1
    return found[0]


@pytest.mark.parametrize(
    ("design", "complaint"),
    [
        ("pe", "o_swap: "),
        pytest.param("array_4x4", "o_psums of tile ", marks=pytest.mark.slow),
        pytest.param("mxu_2x2", "results: beat ", marks=pytest.mark.slow),
    ],
)
def test_benches_see_a_late_swap_mark(design: str, complaint: str) -> None:
    require("verilator")
    with pytest.raises(SimulationError, match=complaint):
        run_bench(Task(design), mutate=delayed_swap, timeout=120)


@pytest.mark.parametrize("design", ["multiplier_bf16", pytest.param("stream_adder", marks=pytest.mark.slow)])
def test_benches_see_truncation(design: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require("verilator")
    nearest_even = rounding._nearest_even
    monkeypatch.setattr(rounding, "_nearest_even", lambda fmt, bits: (nearest_even(fmt, bits)[0], 0 & bits[0]))
    with pytest.raises(SimulationError, match=r"o: .*got [0-9A-F]+ \(.*expected .*operands .*cycle \d+, seed 0"):
        run_bench(Task(design, count=100), timeout=120)
