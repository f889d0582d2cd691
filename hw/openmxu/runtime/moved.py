"""Old import paths, for one release: each gives the module of its new path, and a warning that names it.

A finder at the end of ``sys.meta_path`` is asked only for what no file has, so that an import of a new path never
comes here.
"""

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MOVED", "install"]

_ROOMS = {
    "openmxu.area.finding": "comparison elements findings fronts units",
    "openmxu.area.run": "energy job layout measure placing schedule",
    "openmxu.area.subject": "ablation designs given peers points",
    "openmxu.area.target": "doubts gates liberty libraries targets timing",
    "openmxu.cli": "supervisor",
    "openmxu.export": "bench enable header integration memories names provenance rtlil verilog",
    "openmxu.runtime": "cache callee cluster extras files locks posix process sources watcher",
    "openmxu.spec": "config formats marks passes stages tiling",
    "openmxu.unit": "accumulator admission array axi edge hierarchy mxu pe skew status",
    "openmxu_boards.bitstream": "flow pages placement record report route top",
    "openmxu_boards.devices": "clocks families platforms targets vendors",
    "openmxu_boards.simulated": "verilated",
    "openmxu_sim.cosim": "benches waveform",
    "openmxu_sim.networks": "convolution costs numerics",
    "openmxu_sim.operands": "aliases npy parts stimulus tensors vectors",
    "openmxu_sim.studies": "speed",
}
"""What moved from a package into a room of it, each under its name."""

MOVED = {
    **{
        f"{room.rpartition('.')[0]}.{name}": f"{room}.{name}"
        for room, names in _ROOMS.items()
        for name in names.split()
    },
    "openmxu.host": "openmxu.runtime.machine",
    "openmxu.signals": "openmxu.cli.interrupts",
    "openmxu.streams": "openmxu.cli.terminal",
    "openmxu.synth": "openmxu.area",
    "openmxu_sim.figures": "openmxu.pages.figures",
}
"""The new path of each old one."""


class _Finder:
    """Finds what moved; it is its loader, too."""

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
        sys.meta_path.append(_Finder())
