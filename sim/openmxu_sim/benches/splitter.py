"""Bench of the splitter."""

from typing import Any

import cocotb

from openmxu_sim.benches.operations import check_rigid, splitting
from openmxu_sim.benches.task import Task


@cocotb.test()
async def operands(dut: Any) -> None:
    """Corners in all parts, then random operands of every sort."""
    task = Task.of_environment()
    await check_rigid(dut, splitting(task.component()), task)
