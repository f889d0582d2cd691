"""An accelerator on AXI4 and Wishbone in Verilator, between a host and a memory; its registers, one by one."""

from pathlib import Path

import numpy as np
import pytest

from openmxu.accelerator.bus.attached import BusAccelerator
from openmxu.export.verilog import to_verilog
from openmxu.spec.accelerator import AcceleratorConfig
from openmxu.spec.commands import Command, Level
from openmxu_sim.accelerator import Memories, run, with_waits
from openmxu_sim.cosim.runner import simulate

from ...conftest import need, slow, thorough
from .programs import random_program, random_words

_WORDS = 1 << 11


def _cases(config: AcceleratorConfig, count: int) -> dict[str, np.ndarray]:
    """Programs that fill both memories from the bus, do something, and store the scratchpad."""
    every = {"rows": 0, "valid": config.size}
    steps = {"x": Level(64, 1, config.size)}
    head = [Command("load", {**every, "address": at, "into_weights": at > 1024}, steps) for at in (1024, 1536)]
    tail = Command("store", {**every, "address": 512}, steps)
    found: dict[str, list[np.ndarray]] = {"programs": [], "before": [], "after": []}
    for seed in range(count):
        rng = np.random.default_rng(seed)
        middle = random_program(rng, 6)[:-1]
        program = with_waits(config, [*head, *middle, tail, Command("end", {"tag": seed})])
        memories = Memories(config, np.zeros((0, config.size), np.uint16), memory=random_words(rng, _WORDS))
        found["before"].append(memories.memory.copy())
        run(program, memories)
        words = np.array([word for command in program for word in command.words], np.uint32)
        found["programs"].append(np.pad(words, (0, 256 - len(words))))
        found["after"].append(memories.memory)
    return {name: np.array(rows) for name, rows in found.items()}


@pytest.mark.parametrize(
    ("bus", "width"), [slow("axi", 32), slow("wishbone", 32), thorough("axi", 64), thorough("wishbone", 64)]
)
def test_programs_on_a_bus(bus: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("verilator")
    config = AcceleratorConfig(size=width // 16, stages=1, depth=16, rows=64, weights=64, beat=width)
    monkeypatch.setattr("tests.openmxu_sim.accelerator.programs.MACHINE", config)
    np.savez(tmp_path / "cases.npz", **_cases(config, 6))
    component = BusAccelerator(config, bus)
    facts = {"CASES": tmp_path / "cases.npz", "AXI": int(bus == "axi"), "SIZE": config.size, "BUS": width}
    environment = {f"OPENMXU_{name}": str(fact) for name, fact in facts.items()}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    bench = "tests.openmxu_sim.accelerator.bus_bench"
    assert len(simulate(to_verilog(component), component.module_name, bench, environment=environment)) == 5
