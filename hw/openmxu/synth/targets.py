"""What a design can be mapped to, how, and what is counted then."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openmxu.synth.liberty import Library, generic_library, read_library

__all__ = ["RECIPES", "TARGETS", "Area", "Target", "UnmappedError", "choose_targets"]

TARGETS = {
    "generic": "generic gates, area in NAND2 equivalents (GE)",
    "ecp5": "Lattice ECP5, LUT4 without DSP blocks",
    "ice40": "Lattice iCE40, LUT4 without DSP blocks",
}
"""The targets that are always there, and what they are. Any Liberty library is one more."""

RECIPES = {
    "area": "ABC told to minimise area (amap)",
    "default": "Yosys's own choice of steps: ABC told to minimise delay first (&nf)",
}
"""The ways to map to gates, and what they are.

Reports use ``area``: it is what they are about, and the steadier way. With ``default`` ABC trades area for
delays, and generic gates have none: a rewrite of an adder that cost 4 % on a cell library cost 13 % there. With
``area`` the same design has nearly the same area in GE on generic gates and on cell libraries.
"""


class UnmappedError(RuntimeError):
    """The netlist holds cells that the target does not count, so its area would be too small."""


@dataclass(frozen=True)
class Area:
    """What was counted in a mapped netlist, each module as often as it is there.

    Parameters
    ----------
    area
        The figure to compare: GE on gates, LUT4 on FPGAs.
    combinational, sequential
        Gates: its two parts, flip-flops being the second. FPGA: LUT4, and none.
    flip_flops
        Number of flip-flops.
    memory_bits
        Gates: bits of memories. They, with their ports and the registers of these, are in no other figure.
    carries
        FPGA: number of carry cells (CCU2C, SB_CARRY).
    cell_area
        Gates: area in the library's own unit.
    cells
        Number of cells of each type.
    """

    area: float
    combinational: float
    sequential: float | None
    flip_flops: int
    memory_bits: int
    carries: int | None
    cell_area: float | None
    cells: dict[str, int]


@dataclass(frozen=True)
class Target:
    """One thing to map designs to, in one way.

    Parameters
    ----------
    name
        A name from :data:`TARGETS` or of a library.
    title
        What reports call it.
    unit
        Of :attr:`Area.area`.
    recipe
        A name from :data:`RECIPES`, or ``fpga``.
    script
        The Yosys script, ``{top}`` standing for the design's top module.
    count
        From the netlist's statistics (``stat -json``, whole) to its area.
    library
        The cell library, on gates.
    """

    name: str
    title: str
    unit: str
    recipe: str
    script: str
    count: Callable[[Mapping[str, Any]], Area] = field(repr=False, compare=False)
    library: Library | None = None

    @property
    def label(self) -> str:
        """What tells it from other targets in a table."""
        return f"{self.name} (default)" if self.recipe == "default" else self.name


def choose_targets(names: Sequence[str], liberty: Sequence[Path], recipes: Sequence[str]) -> list[Target]:
    """The targets that a report covers.

    Parameters
    ----------
    names
        Names from :data:`TARGETS`.
    liberty
        Liberty files.
    recipes
        Names from :data:`RECIPES`, each run on each library. FPGAs have a recipe of their own.

    Raises
    ------
    OSError
        A Liberty file cannot be read.
    ValueError
        A name is unknown, a Liberty file is of no use, two have the same name, or nothing is asked for.
    """
    for noun, given, known in (("target", names, TARGETS), ("recipe", recipes, RECIPES)):
        for name in given:
            if name not in known:
                raise ValueError(f"{noun} must be one of {', '.join(known)}, not {name!r}")
    if not recipes or not (names or liberty):
        raise ValueError("at least one target or Liberty file and one recipe must be given, not none")
    targets: list[Target] = []
    # Asking twice for the same thing gives it once.
    recipes = list(dict.fromkeys(recipes))
    for name in dict.fromkeys(names):
        if name == "generic":
            targets += [_gates(generic_library(), name, TARGETS[name], recipe) for recipe in recipes]
        else:
            targets.append(_FPGAS[name])
    for path in liberty:
        library = read_library(path)
        if any(target.name == library.name for target in targets):
            raise ValueError(f"liberty must be libraries of different names, not a second {library.name!r}")
        title = "cell library, area in NAND2 equivalents (GE)"
        targets += [_gates(library, library.name, title, recipe) for recipe in recipes]
    return targets


# ABC maps once, straight to the library's cells, and not to generic gates first, which takes twice the time.
#
# Modules that the export writes once and refers to, each a top module to Amaranth, are mapped once, too, and
# all others flattened into them: a unit with 64 processing elements takes seconds in place of minutes.
#
# From `opt -fast -full` on, these are the steps of `synth`, but memories stay memories: as flip-flops they
# would be many times as large as they are on any chip. Unpacked, `stat` counts their bits.
_GATES = """\
read_rtlil /job/design.il
setattr -mod -set keep_hierarchy 1 A:top
synth -flatten -noabc -top {top} -run begin:fine
opt -fast -full
memory_map -rom-only
opt -full
techmap
opt -fast
memory_unpack
dfflibmap -liberty /lib/LIBRARY.lib
abc -liberty /lib/LIBRARY.libABC_SCRIPT
opt_clean -purge
tee -q -o /job/stat.json stat -json -liberty /lib/LIBRARY.lib
"""

# The difference is `amap`, which minimises area, in place of `&nf`, which first keeps the shortest path.
_ABC_SCRIPTS = {"default": "", "area": " -script +strash;&get,-n;&fraig,-x;&put;scorr;dc2;dch,-f;amap"}


# Without &mfs, a step of ABC that takes up to 95 % of the time and saves 0 to 12 % of the LUTs.
_LUTS = """\
scratchpad -set abc9.nomfs 1
read_rtlil /job/design.il
SYNTHESIS -top {top}
tee -q -o /job/stat.json stat -json
"""


def _gates(library: Library, name: str, title: str, recipe: str) -> Target:
    """The target for a cell library."""

    def count(statistics: Mapping[str, Any]) -> Area:
        cells = _cells(statistics, lambda cell: not cell.startswith("$"), ignored=_MEMORY)
        design = statistics["design"]
        total, sequential = float(design["area"]), float(design["sequential_area"])
        return Area(
            area=total / library.nand2_area,
            combinational=(total - sequential) / library.nand2_area,
            sequential=sequential / library.nand2_area,
            flip_flops=sum(number for cell, number in cells.items() if cell in library.sequential),
            memory_bits=int(design["num_memory_bits"]),
            carries=None,
            cell_area=total,
            cells=cells,
        )

    script = _GATES.replace("LIBRARY", name).replace("ABC_SCRIPT", _ABC_SCRIPTS[recipe])
    return Target(name, title, "GE", recipe, script, count, library)


def _fpga(name: str, synthesis: str, *, lut: str, carry: str, luts_per_carry: int, flip_flop: str) -> Target:
    """The target for an FPGA; ``luts_per_carry`` are the LUT4 that a carry cell takes for itself."""

    def count(statistics: Mapping[str, Any]) -> Area:
        cells = _cells(statistics, lambda cell: cell in (lut, carry) or cell.startswith(flip_flop))
        luts = cells.get(lut, 0) + luts_per_carry * cells.get(carry, 0)
        return Area(
            area=luts,
            combinational=luts,
            sequential=None,
            flip_flops=sum(number for cell, number in cells.items() if cell.startswith(flip_flop)),
            memory_bits=0,
            carries=cells.get(carry, 0),
            cell_area=None,
            cells=cells,
        )

    return Target(name, TARGETS[name], "LUT4", "fpga", _LUTS.replace("SYNTHESIS", synthesis), count)


_FPGAS = {
    # No wide multiplexers: with them one function may take four LUT4 and three multiplexers, and no one number
    # says how large a design is. A CCU2C is the two LUT4 of a slice in carry mode.
    "ecp5": _fpga("ecp5", "synth_ecp5 -nodsp -nobram -nolutram -nowidelut",
                  lut="LUT4", carry="CCU2C", luts_per_carry=2, flip_flop="TRELLIS_FF"),
    # DSP blocks are left alone unless asked for. An SB_CARRY shares the logic cell of the LUT that adds.
    "ice40": _fpga("ice40", "synth_ice40 -nobram",
                   lut="SB_LUT4", carry="SB_CARRY", luts_per_carry=0, flip_flop="SB_DFF"),
}


# The ports of memories, and their initial contents.
_MEMORY = frozenset({"$memrd_v2", "$memwr_v2", "$meminit", "$meminit_v2"})


def _cells(statistics: Mapping[str, Any], counts: Callable[[str], bool], *,
           ignored: Set[str] = frozenset()) -> dict[str, int]:
    """Number of cells of each type; raises :exc:`UnmappedError` for a type that does not count."""
    # Instances of the design's own modules stand among the cells; what is in them is counted already.
    # $scopeinfo remembers the hierarchy of a flattened design; it is no hardware.
    cells = {cell: number for cell, number in statistics["design"]["num_cells_by_type"].items()
             if cell != "$scopeinfo" and cell not in ignored and f"\\{cell}" not in statistics["modules"]}
    strangers = [cell for cell in cells if not counts(cell)]
    if strangers:
        raise UnmappedError(f"cells that cannot be counted on this target: {', '.join(strangers)}")
    return dict(sorted(cells.items()))
