"""Cell libraries that are on this machine already."""

import os
from pathlib import Path
from typing import NamedTuple

_VARIABLE = "OPENMXU_LIBERTY"

# The ordinary library of each open process at its typical corner, where PDK_ROOT's usual layouts have it.
_IN_PDK_ROOT = (
    "sky130A/libs.ref/sky130_fd_sc_hd/lib/sky130_fd_sc_hd__tt_025C_1v80.lib*",
    "gf180mcu?/libs.ref/gf180mcu_fd_sc_mcu7t5v0/lib/gf180mcu_fd_sc_mcu7t5v0__tt_025C_5v00.lib*",
    "ihp-sg13g2/libs.ref/sg13g2_stdcell/lib/sg13g2_stdcell_typ_1p20V_25C.lib*",
)
_QFLOW = Path("/usr/share/qflow")
_IN_QFLOW = ("tech/osu018/osu018_stdcells.lib", "tech/osu035/osu035_stdcells.lib", "tech/osu050/osu050_stdcells.lib")


class Found(NamedTuple):
    """A library, and the source that it was found through."""

    path: Path
    source: str


def named_libraries() -> list[Path]:
    """The files that the variable ``OPENMXU_LIBERTY`` names, as ``PATH`` names folders."""
    return [Path(name) for name in os.environ.get(_VARIABLE, "").split(os.pathsep) if name]


def found_libraries() -> list[Found]:
    """The libraries of process design kits below ``PDK_ROOT`` (Sky130, GF180MCU, IHP SG13G2) and of Debian's qflow."""
    libraries = []
    root = os.environ.get("PDK_ROOT")
    for pattern in _IN_PDK_ROOT if root else ():
        paths = sorted(Path(str(root)).glob(pattern))
        libraries += [Found(path, "PDK_ROOT") for path in paths[:1]]
    return libraries + [Found(_QFLOW / name, "qflow") for name in _IN_QFLOW if (_QFLOW / name).is_file()]
