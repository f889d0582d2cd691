"""Bench of the converter."""

from typing import Any

import cocotb

from openmxu_sim.benches.operations import check_rigid, conversion
from openmxu_sim.benches.task import Task


@cocotb.test()
async def operands(dut: Any) -> None:
    """Corners, then random operands of every sort."""
    task = Task.of_environment()
    await check_rigid(dut, conversion(task.component()), task)
