"""The task of a bench, and how a bench is started."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from openmxu.catalog import CATALOG
from openmxu.catalog import build as build_design
from openmxu.export.verilog import to_verilog
from openmxu_sim.cosim.runner import simulate

BENCHES = {
    "product": "pipeline",
    "multiplier": "pipeline",
    "adder": "pipeline",
    "converter": "pipeline",
    "splitter": "pipeline",
    "stream_multiplier": "streamed",
    "stream_adder": "streamed",
    "stream_converter": "streamed",
    "pe": "pe",
    "array": "array",
    "mxu": "mxu",
}
"""The bench module of each family of designs."""

_VARIABLE = "OPENMXU_BENCH"


@dataclass(frozen=True)
class Task:
    """A design, and the operands with which its bench runs."""

    design: str
    """Name of a catalog entry."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Parameters in which the design differs from the entry."""
    seed: int = 0
    """Seed of operands and stalls."""
    count: int = 2000
    """Number of random vectors."""

    @classmethod
    def of_environment(cls) -> "Task":
        """Return the task that this process was started for."""
        return cls(**json.loads(os.environ[_VARIABLE]))

    @property
    def environment(self) -> dict[str, str]:
        """The variable that :meth:`of_environment` reads."""
        return {_VARIABLE: json.dumps(asdict(self))}

    @property
    def family(self) -> str:
        """Family of the design."""
        return CATALOG[self.design].family

    @property
    def bench(self) -> str:
        """Name of the bench module: :data:`BENCHES` for the family; units on a bus have one of their own."""
        bus = (CATALOG[self.design].domain | dict(self.overrides)).get("bus", "none")
        return BENCHES[self.family] if bus == "none" else str(bus)

    def component(self) -> Any:
        """The component under test, for its properties."""
        return build_design(self.design, **self.overrides)


def run_bench(
    task: Task,
    *,
    simulator: str = "verilator",
    mutate: Callable[[str], str] | None = None,
    plusargs: Sequence[str] = (),
    vcd: Path | None = None,
    timeout: float = 600.0,
) -> list[str]:
    """Run the bench of a design; returns the names of its tests."""
    component = task.component()
    verilog = to_verilog(component)
    return simulate(
        verilog if mutate is None else mutate(verilog),
        component.module_name,
        f"openmxu_evidence.benches.{task.bench}",
        simulator=simulator,
        environment=task.environment,
        plusargs=plusargs,
        vcd=vcd,
        timeout=timeout,
    )
