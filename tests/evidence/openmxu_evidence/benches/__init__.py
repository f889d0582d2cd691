"""cocotb test benches, one module for each family of designs, and the function that runs them.

A bench takes the design, the seed and the number of random vectors from the environment, see
:mod:`openmxu_evidence.benches.task`; its expected values come from the golden model alone.
"""

from openmxu_evidence.benches.task import BENCHES, Task, run_bench

__all__ = ["BENCHES", "Task", "run_bench"]
