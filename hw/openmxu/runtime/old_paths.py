"""Old import paths, for one release: each gives the module of its new path, and a warning that names it.

Its finder comes first in ``sys.meta_path``: where a package was, a checkout may have an empty folder left, which Python
takes for a package.
"""

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

_ROOMS = {
    "openmxu.arith.datapath": "pipeline product round shift sum unpack",
    "openmxu.area.finding": "comparison elements findings fronts units",
    "openmxu.area.run": "energy job measure schedule",
    "openmxu.area.subject": "ablation designs given peers points",
    "openmxu.area.target": "doubts gates liberty libraries targets timing",
    "openmxu.cli": "supervisor",
    "openmxu.export": "bench enable header integration memories names provenance rtlil verilog",
    "openmxu.runtime": "cache callee extras files locks process sources watcher",
    "openmxu.spec": "config formats marks passes stages tiling",
    "openmxu.unit": "accumulator admission array axi edge hierarchy mxu pe skew status",
    "openmxu_boards.bitstream": "flow pages placement record report route top",
    "openmxu_boards.devices": "clocks families platforms vendors",
    "openmxu_boards.simulated": "verilated",
    "openmxu_sim.cosim": "benches waveform",
    "openmxu_sim.networks": "convolution costs numerics",
    "openmxu_sim.operands": "aliases npy parts stimulus tensors vectors",
}
"""Modules that moved into a folder of their package, by the folder's path."""

MOVED = {
    **{
        f"{room.rpartition('.')[0]}.{name}": f"{room}.{name}"
        for room, names in _ROOMS.items()
        for name in names.split()
    },
    "openmxu.area.pages.citing": "openmxu.area.chapters.citing",
    "openmxu.area.pages.clocks": "openmxu.area.chapters.clocks",
    "openmxu.area.pages.conclusion": "openmxu.area.chapters.conclusion",
    "openmxu.area.pages.derived": "openmxu.area.chapters.derived",
    "openmxu.area.pages.energy": "openmxu.area.chapters.energy_tables",
    "openmxu.area.pages.headline": "openmxu.area.chapters.headline",
    "openmxu.area.pages.marked": "openmxu.pages.tables",
    "openmxu.area.pages.own": "openmxu.area.chapters.own",
    "openmxu.area.pages.peers": "openmxu.area.chapters.peer_tables",
    "openmxu.area.pages.shell": "openmxu.pages.document",
    "openmxu.cluster": "openmxu.area.run.cluster",
    "openmxu.posix": "openmxu.runtime.locks",
    "openmxu_sim.verify.faults": "openmxu_studies.faults",
    "openmxu_sim.verify.leftovers": "openmxu_studies.faults.leftovers",
    "openmxu.host": "openmxu.runtime.machine",
    "openmxu.signals": "openmxu.cli.interrupts",
    "openmxu.streams": "openmxu.cli.terminal",
    "openmxu.synth": "openmxu.area",
    "openmxu_boards.replay.selftest": "openmxu_boards.replay.verdict",
    "openmxu_boards.replay.system": "openmxu_boards.replay.verdict",
    "openmxu_boards.simulated.link": "openmxu_boards.simulated.pin_link",
    "openmxu.yosys.wasm": "openmxu.yosys.yowasp",
    "openmxu_boards.targets": "openmxu_boards.devices.boards",
    "openmxu_sim.energy.networks": "openmxu_sim.energy.inference",
    "openmxu_sim.engines.compiled.trial": "openmxu_sim.engines.compiled.try_unit",
    "openmxu_sim.engines.compiled.waveform": "openmxu_sim.engines.compiled.vcd",
    "openmxu_sim.engines.model.trial": "openmxu_sim.engines.model.try_kernel",
    "openmxu_sim.figures": "openmxu.pages.figures",
    "openmxu_sim.jax.products": "openmxu_sim.jax.primitives",
    "openmxu_sim.jax.trial": "openmxu_sim.jax.try_handler",
    "openmxu_sim.onnx.operators": "openmxu_sim.onnx.matrix_nodes",
    "openmxu_sim.speed": "openmxu_studies.speed",
    "openmxu_sim.studies.packages": "openmxu_studies.packages",
    "openmxu_sim.studies.pretrained": "openmxu_studies.pretrained",
    "openmxu_sim.studies.training": "openmxu_studies.training",
    "openmxu_sim.studies.plot": "openmxu_sim.studies.roofline_plot",
    "openmxu_sim.studies.pretrained.record": "openmxu_studies.pretrained.answers",
    "openmxu_sim.studies.training.networks": "openmxu_studies.training.tasks",
    "openmxu_sim.studies.training.plot": "openmxu_studies.training.training_plot",
    "openmxu_sim.studies.training.report": "openmxu_studies.training.tables",
    "openmxu_sim.torch.products": "openmxu_sim.torch.arrays",
    "openmxu_sim.verify.exploration.words": "openmxu_sim.verify.exploration.word_netlist",
    "openmxu_sim.verify.report": "openmxu_sim.verify.evidence",
    "openmxu_sim.wave.page.source": "openmxu_sim.wave.page.c_text",
}
"""The new path of each old one."""


class _Finder:
    """Finds and loads the modules that moved."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in MOVED else None  # type: ignore[arg-type]  # no Loader: see install

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        warnings.warn(f"{name} is {MOVED[name]} now; the old path goes with 0.3", DeprecationWarning, stacklevel=2)
        sys.modules[name] = import_module(MOVED[name])


def install() -> None:
    """Find modules by their old paths from now on; importlib's own base classes would cost each start 5 ms."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
