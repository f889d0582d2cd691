"""Speed and size of any design on an FPGA, placed and routed: figures without a bitstream.

::

    pin ─▶[ ]─▶[ ]─▶ … a register per input bit        a register per output bit … ─▶(+)─▶[ ]─▶ pin
           │    │                                                 │
           ▼    ▼                                                 │
          the design's inputs ──▶ design ──▶ its outputs ─────────┘   (+): exclusive or

A design has more ports than a device has pins. So registers go around it: every path begins and ends at one, and three
pins are enough. The third one enables the shift of inputs: else a register of the design that repeats an input would be
merged with the next bit. The figures exclude these parts: a flip-flop for each bit of a port, a LUT for each bit of an
output.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.export.verilog import to_rtlil
from openmxu.runtime import process
from openmxu.runtime.machine import cores
from openmxu.spec.forms import FPGA
from openmxu.yosys import yowasp
from openmxu_boards import tools
from openmxu_boards.bitstream.report import LongestPath, read_clocks, read_path, read_utilisation
from openmxu_boards.families import FAMILIES
from openmxu_boards.families.family import Device

_TOP = "registered"


DEVICES: Mapping[str, Device] = dict(sorted(pair for family in FAMILIES for pair in family.devices.items()))


class _Registered(wiring.Component):
    """A design between registers, with three pins."""

    def __init__(self, design: Any) -> None:
        self._design = design
        flat = list(design.signature.flatten(design))
        self.inputs = Cat(Value.cast(value) for _, member, value in flat if member.flow == In)
        self.outputs = Cat(Value.cast(value) for _, member, value in flat if member.flow == Out)
        super().__init__({"i": In(1), "i_shift": In(1), "o": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Bits enter and leave one by one; outputs are mixed with later outputs."""
        m = Module()
        m.submodules.design = self._design
        entered = Signal(len(self.inputs), reset_less=True)
        left = Signal(len(self.outputs), reset_less=True)
        with m.If(self.i_shift):
            m.d.sync += entered.eq(Cat(self.i, entered))
        m.d.sync += left.eq(Cat(0, left) ^ self.outputs)
        m.d.comb += [self.inputs.eq(entered), self.o.eq(left[-1])]
        return m


@dataclass(frozen=True)
class Routed:
    """The figures of a design on a device."""

    design: str
    device: str
    """The design's module, and a name from :data:`DEVICES`."""
    megahertz: Mapping[int, float]
    """The clock that the routed design reaches, in nextpnr's worst case, by seed."""
    cells: Mapping[str, int]
    """The kinds of cells that are used, by nextpnr's names, without the registers around the design."""
    path: LongestPath | None
    """The longest path, for the median seed."""
    versions: Mapping[str, str]

    @property
    def median(self) -> float:
        return _median(self.megahertz)[1]

    def to_json(self) -> str:
        fields = {"design": self.design, "device": self.device, "median": self.median}
        seeds = {str(seed): clock for seed, clock in self.megahertz.items()}
        rest = {
            "megahertz": seeds,
            "cells": self.cells,
            "path": self.path and asdict(self.path),
            "versions": self.versions,
        }
        return json.dumps(fields | rest, indent=2) + "\n"

    def __str__(self) -> str:
        clocks = sorted(self.megahertz.values())
        return "\n".join(
            [
                f"{self.design} on {DEVICES[self.device].title}",
                f"clock: {self.median:.1f} MHz, median of {len(clocks)} seeds ({clocks[0]:.1f} to {clocks[-1]:.1f})",
                *(f"{kind}: {number:,}" for kind, number in self.cells.items()),
                *([] if self.path is None else [str(self.path)]),
            ]
        )


def find_device(name: str) -> Device:
    if name not in DEVICES:
        raise ValueError(f"device must be one of {', '.join(DEVICES)}, not {name!r}")
    return DEVICES[name]


def route(
    design: Any, device: str, seeds: Sequence[int] = range(1, 6), *, progress: Callable[[str], None] | None = None
) -> Routed:
    """Place and route a design between registers, once for each seed."""
    target = find_device(device)
    if not seeds:
        raise ValueError("seeds must be one or more, not none")
    names = ["yosys", target.router[0]]
    tools.check(names)
    tell = progress or (lambda line: None)
    with process.workspace() as work, process.threads(cores()) as pool:
        registered = _Registered(design)
        (work / "design.il").write_text(to_rtlil(registered, name=_TOP, form=FPGA))
        script = f"read_rtlil design.il; {target.synthesis} -top {_TOP} -json design.json"
        tell(f"synthesis of {design.module_name}")
        yowasp.run("yosys", ["-q", "-p", script], work, tell)
        yowasp.prepare(target.router[0], tell)

        def one(seed: int) -> Any:
            tell(f"placement and routing, seed {seed}")
            return _place(target, work, seed, tell)

        reports = dict(zip(seeds, pool.map(one, seeds), strict=True))
    clocks = {seed: max(clock.fmax for clock in read_clocks(report)) for seed, report in reports.items()}
    shown = reports[_median(clocks)[0]]
    return Routed(
        design.module_name, device, clocks, _cells(target, registered, shown), read_path(shown), tools.versions(names)
    )


def _median(clocks: Mapping[int, float]) -> tuple[int, float]:
    """The seed whose clock is the median, the lower one of two; and that clock."""
    ordered = sorted(clocks.items(), key=lambda pair: pair[1])
    return ordered[(len(ordered) - 1) // 2]


def _place(target: Device, work: Path, seed: int, tell: Callable[[str], None]) -> Any:
    folder = work / str(seed)
    folder.mkdir()
    (folder / "design.json").write_bytes((work / "design.json").read_bytes())
    tool, *options = target.router
    files = ["--json", "design.json", "--report", "report.json"]
    yowasp.run(tool, [*options, *files, "--seed", str(seed), "--timing-allow-fail"], folder, tell)
    return json.loads((folder / "report.json").read_text())


def _cells(target: Device, registered: _Registered, report: Any) -> dict[str, int]:
    """The cells that are used, without pins and the registers around the design."""
    counts = {usage.kind: usage.used for usage in read_utilisation(report) if not usage.kind.endswith("_IO")}
    bits = len(registered.inputs) + len(registered.outputs)
    logic, flip_flops, *_ = target.cells
    if flip_flops:
        counts[flip_flops] = counts.get(flip_flops, 0) - bits
        counts[logic] -= len(registered.outputs)
    else:  # a cell holds a LUT and a flip-flop
        counts[logic] -= bits
    return counts
