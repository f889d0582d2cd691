"""Bench of arithmetic in a rigid pipeline."""

from typing import Any

import cocotb

from openmxu_evidence.benches.operations import OPERATIONS, check_rigid
from openmxu_evidence.benches.task import Task


@cocotb.test()
async def operands(dut: Any) -> None:
    """Corners, crossed with corners where there are two operands; then random operands of every sort."""
    task = Task.of_environment()
    await check_rigid(dut, OPERATIONS[task.family](task.component()), task)
