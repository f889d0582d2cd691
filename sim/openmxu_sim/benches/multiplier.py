"""Bench of the multiplier."""

from typing import Any

import cocotb

from openmxu_sim.benches.operations import check_rigid, multiplication
from openmxu_sim.benches.task import Task


@cocotb.test()
async def operands(dut: Any) -> None:
    """Corners crossed with corners, then random operands of every sort."""
    task = Task.of_environment()
    await check_rigid(dut, multiplication(task.component()), task)
