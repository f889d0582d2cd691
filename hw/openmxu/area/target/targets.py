"""The targets that designs are mapped to: their scripts, and the counts of the mapped netlists."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from openmxu.area.target.timing import find_sta
from openmxu.cells.liberty import Library, generic_library
from openmxu.spec.forms import AREA, FORMS

TARGETS = {
    "generic": "generic gates, area in NAND2 equivalents (GE)",
    "cmos": "static CMOS, transistors as Yosys estimates them",
    "ecp5": "Lattice ECP5, LUT4 without DSP blocks",
    "ice40": "Lattice iCE40, LUT4 without DSP blocks",
    "gowin": "Gowin GW2A, LUT4 without DSP blocks",
    "xilinx7": "Xilinx 7 series, LUT6 without DSP blocks",
    "ecp5-dsp": "Lattice ECP5, LUT4 beside DSP blocks",
    "ice40-dsp": "Lattice iCE40, LUT4 beside DSP blocks",
    "xilinx7-dsp": "Xilinx 7 series, LUT6 beside DSP blocks",
}
"""The built-in targets, each with its description. Any Liberty library is one more."""

DEFAULT_TARGETS = ("generic", "ecp5", "ice40")
"""Targets that are measured by default."""

RECIPES = {
    "area": "ripple carries and products row by row, then ABC minimises area (amap)",
    "default": "Yosys's own steps: ABC minimises delay first (&nf)",
    "sized": "ABC minimises area (amap), then buffers and sizes gates by the library's timing",
    "speed": "the form for speed; ABC minimises delay, then buffers and sizes gates by the library's timing",
}
"""The ways to map to gates, each with its description.

Reports use ``area``: it minimises what they compare, and varies less. There ``+`` and ``*`` become the smallest
structures: ripple carries, and rows of a product, in place of Yosys's carry look-ahead and carry-save trees. That makes
a processing element 3 % smaller. (FPGAs have carry chains and DSP blocks for that.)

With ``default`` ABC trades area for delays, and generic gates have none: a rewrite of an adder that cost 4 % on a cell
library cost 13 % there. With ``area`` the same design has nearly the same area in GE on generic gates and on cell
libraries. ``sized`` and ``speed`` need a library with timing.
"""


class UnmappedError(RuntimeError):
    """The netlist holds cells that the target does not count, so its area would be too small."""


@dataclass(frozen=True)
class Area:
    """Counts of a mapped netlist, each module counted once for each instance."""

    area: float
    """The figure to compare: GE on gates, LUTs on FPGAs, transistors on ``cmos``."""
    combinational: float
    sequential: float | None = None
    """Gates: the two parts of the area, the second being flip-flops and latches. Elsewhere: the area, and ``None``."""
    flip_flops: int = 0
    """Number of flip-flops and latches."""
    memory_bits: int = 0
    """Gates: bits of memories. No other figure includes the memories, their ports, or the registers of these."""
    carries: int | None = None
    """FPGA: number of carry cells (CCU2C, SB_CARRY, ALU, CARRY4)."""
    dsps: int | None = None
    block_rams: int | None = None
    """FPGA: numbers of DSP blocks (MULT18X18D, SB_MAC16, DSP48E1), and of blocks of memory."""
    cell_area: float | None = None
    """Gates: area in the library's own unit."""
    cells: dict[str, int] = field(default_factory=dict)
    """Number of cells of each type."""


_FIRST = "+strash;"
"""First command of each ABC script of this project."""

TIMED_RECIPES = ("sized", "speed")
"""Recipes that need a library with timing."""

_ASIDE = ("default", *TIMED_RECIPES)
"""More recipes for a cell library; the report's conclusions use ``area`` only."""


@dataclass(frozen=True)
class Target:
    """A technology and a recipe to map designs to."""

    name: str
    """A name from :data:`TARGETS` or of a library."""
    title: str
    """Title in reports."""
    unit: str
    """Unit of :attr:`Area.area`."""
    recipe: str
    """A name from :data:`RECIPES`, ``fpga`` or ``cmos``."""
    script: str
    """The Yosys script, ``{top}`` standing for the design's top module, ``{change}`` for commands that change the
    design first."""
    count: Callable[[Mapping[str, Any]], Area] = field(repr=False, compare=False)
    """From the netlist's statistics (``stat -json``, whole) to its area."""
    library: Library | None = None
    """The cell library, on gates."""
    timing: str = ""
    """The tool that measures delays, and its version; empty if none does."""
    counts_all: bool = True
    """Whether the area covers the whole design, without DSP blocks beside it."""

    @property
    def is_ranked(self) -> bool:
        """Whether statements include this target: each sound library counts once, by its area."""
        return self.counts_all and self.recipe not in _ASIDE and self.is_sound

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong with the areas of its library, if it has one."""
        return self.library is None or not self.library.doubt

    @property
    def form(self) -> str:
        """The form of arithmetic that suits it; see :data:`~openmxu.spec.forms.FORMS`."""
        return self.recipe if self.recipe in FORMS else AREA

    @property
    def has_orders(self) -> bool:
        """Whether ABC can be given a design in several orders: where its script is this project's own."""
        return _FIRST in self.script

    @property
    def label(self) -> str:
        """Label in tables: the name, and the recipe unless statements are about it."""
        return f"{self.name} ({self.recipe})" if self.recipe in _ASIDE else self.name


def in_order(script: str, order: int) -> str:
    """The script, changed to give ABC inputs and outputs in a random order with the seed ``order``; unchanged for 0.

    ABC goes through a circuit from output to output, so it meets the same gates in another order, and finds other ways
    to map them. Inputs and outputs keep their names: the function is the same.
    """
    return script.replace(_FIRST, f"{_FIRST}permute,-S,{order};") if order else script


def choose_targets(names: Sequence[str], libraries: Sequence[Library], recipes: Sequence[str]) -> list[Target]:
    """The targets that a report covers."""
    for noun, values, known in (("target", names, TARGETS), ("recipe", recipes, RECIPES)):
        for name in values:
            if name not in known:
                raise ValueError(f"{noun} must be one of {', '.join(known)}, not {name!r}")
    if not recipes or not (names or libraries):
        raise ValueError("at least one target or Liberty file and one recipe must be given, not none")
    timing = find_sta()
    targets: list[Target] = []
    # Asking twice for the same thing gives it once.
    for name in dict.fromkeys(names):
        if name == "generic":
            targets += _gates(generic_library(), name, TARGETS[name], recipes, timing)
        else:
            targets.append(_CMOS if name == "cmos" else _FPGAS[name])
    for library in libraries:
        if any(target.name == library.name for target in targets):
            raise ValueError(f"liberty must be libraries of different names, not a second {library.name!r}")
        targets += _gates(library, library.name, "cell library, area in NAND2 equivalents (GE)", recipes, timing)
    if not targets:
        raise ValueError(f"recipe must be area or default on libraries without timing, not {' or '.join(recipes)}")
    return targets


# ABC maps once, straight to the library's cells, and not to generic gates first, which takes twice the time.
#
# Modules that the export writes once and refers to, each a top module to Amaranth, are mapped once, too, and
# all others flattened into them: a unit with 64 processing elements takes seconds in place of minutes.
#
# From `opt -fast -full` on, these are the steps of `synth`, but memories stay memories: as flip-flops they
# would be many times as large as they are on any chip. Unpacked, `stat` counts their bits.
#
# The ends of paths are marked before ABC runs, when they are the cells that are no gates of Yosys's own: flip-flops and
# modules that are mapped once; and memories.
_TO_GATES = """\
read_rtlil /job/design.il
{change}setattr -mod -set keep_hierarchy 1 A:top
COARSE
opt -fast -full
memory_map -rom-only
opt -full
FINE
opt -fast
memory_unpack
"""
_COARSE = "synth -flatten -noabc -top {top} -run begin:fine"
_FINE = "techmap"

# With products and carries of the smallest gates, by the modules that are stashed as %leaf.
_COARSE_WITH_ROWS = """\
synth -flatten -noabc -top {top} -run begin:coarse
proc
flatten
opt_expr
opt_clean
wreduce t:$mul
techmap -map %leaf t:$mul
synth -flatten -noabc -top {top} -run coarse:fine"""
_FINE_WITH_RIPPLES = "techmap -map +/techmap.v -map %leaf"

# A carry of a sum, and a product as a sum of rows, each of which gives a bit of the result and is added to the next.
# Names with a smaller number come before those of Yosys's own rules.
_LEAF_CELLS = """\
(* techmap_celltype = "$lcu" *)
module _80_ripple (P, G, CI, CO);
  parameter WIDTH = 2;
  (* force_downto *) input [WIDTH-1:0] P, G;
  input CI;
  (* force_downto *) output [WIDTH-1:0] CO;
  wire [WIDTH:0] carry = {CO, CI};
  assign CO = G | (P & carry[WIDTH-1:0]);
endmodule

(* techmap_celltype = "$mul" *)
module _80_rows (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  (* force_downto *) input [A_WIDTH-1:0] A;
  (* force_downto *) input [B_WIDTH-1:0] B;
  (* force_downto *) output [Y_WIDTH-1:0] Y;
  localparam FITS = !A_SIGNED && !B_SIGNED && Y_WIDTH == A_WIDTH + B_WIDTH && A_WIDTH > 1 && B_WIDTH > 1;
  wire _TECHMAP_FAIL_ = !FITS;
  localparam ROW = A_WIDTH + 1;
  genvar i;
  generate
    if (FITS) begin
      wire [ROW*B_WIDTH-1:0] rows;
      assign rows[A_WIDTH:0] = A & {A_WIDTH{B[0]}};
      for (i = 1; i < B_WIDTH; i = i + 1) begin : row
        wire [A_WIDTH-1:0] partial = A & {A_WIDTH{B[i]}};
        assign rows[ROW*i +: ROW] = {1'b0, partial} + {1'b0, rows[ROW*(i-1)+1 +: A_WIDTH]};
      end
      for (i = 0; i < B_WIDTH; i = i + 1) begin : low
        assign Y[i] = rows[ROW*i];
      end
      assign Y[Y_WIDTH-1:B_WIDTH] = rows[ROW*(B_WIDTH-1)+1 +: A_WIDTH];
    end
  endgenerate
endmodule
"""


def _to_gates(recipe: str) -> str:
    """The steps up to the mapping."""
    if recipe != "area":
        return _TO_GATES.replace("COARSE", _COARSE).replace("FINE", _FINE)
    cells = _LEAF_CELLS.replace("{", "{{").replace("}", "}}")
    steps = _TO_GATES.replace("COARSE", _COARSE_WITH_ROWS).replace("FINE", _FINE_WITH_RIPPLES)
    return f"read_verilog <<verilog\n{cells}verilog\ndesign -stash leaf\n{steps}"


_GATES = """\
dfflibmap -liberty /lib/cells.lib
select -set ends c:* t:$* %d t:$mem* %u
abc -liberty /lib/cells.libABC_SCRIPT
opt_clean -purge
tee -q -o /job/stat.json stat -json -liberty /lib/cells.lib
read_liberty -lib /lib/cells.lib
tee -q -o /job/depth.txt ltp * @ends %d
"""

_NETLIST = """\
setundef -zero
write_verilog -noattr -simple-lhs /job/netlist.v
"""

# `amap` minimises area, in place of `&nf`, which first keeps the shortest path; of several ways through `map`,
# buffers and sizes this one gave the shortest delays on three libraries.
_SIZING = "topo;buffer,-c;topo;upsize;dnsize"
_ABC_SCRIPTS = {
    "default": "",
    "area": f" -script {_FIRST}&get,-n;&fraig,-x;&put;scorr;dc2;dch,-f;amap",
    "sized": f" -script {_FIRST}&get,-n;&fraig,-x;&put;scorr;dc2;dch,-f;amap;{_SIZING}",
    "speed": f" -script {_FIRST}&get,-n;&fraig,-x;&put;scorr;dc2;dch,-f;map,-B,0.9;{_SIZING}",
}

# Flip-flops of one kind, so that what a reset or an enable costs is counted as gates.
_TRANSISTORS = (
    _to_gates("default")
    + """\
dfflegalize -cell $_DFF_P_ 01
select -set ends t:$_DFF_P_ c:* t:$* %d t:$mem* %u %u
abc -g cmos
opt_clean -purge
tee -q -o /job/stat.json stat -json -tech cmos
tee -q -o /job/depth.txt ltp * @ends %d
"""
)

# Without &mfs, a step of ABC that takes up to 95 % of the time and saves 0 to 12 % of the LUTs.
_LUTS = """\
scratchpad -set abc9.nomfs 1
read_rtlil /job/design.il
{change}SYNTHESIS -top {top}
tee -q -o /job/stat.json stat -json
tee -q -o /job/depth.txt ltp * FLIP_FLOPS
"""


def _gates(library: Library, name: str, title: str, recipes: Sequence[str], timing: str) -> list[Target]:
    """The targets for a cell library."""

    def count(statistics: Mapping[str, Any]) -> Area:
        cells = _cells(statistics, lambda cell: not cell.startswith("$"), ignored=_MEMORY)
        design = statistics["design"]
        total = float(design["area"]) if cells else 0.0  # Yosys gives no area for memories and wires alone
        sequential = sum(number * library.areas[cell] for cell, number in cells.items() if cell in library.sequential)
        return Area(
            area=total / library.nand2_area,
            combinational=(total - sequential) / library.nand2_area,
            sequential=sequential / library.nand2_area,
            flip_flops=sum(number for cell, number in cells.items() if cell in library.sequential),
            memory_bits=int(design["num_memory_bits"]),
            cell_area=total,
            cells=cells,
        )

    timing = timing if library.timed else ""
    script = _GATES + (_NETLIST if timing else "")
    scripts = {
        recipe: _to_gates(recipe) + script.replace("ABC_SCRIPT", _ABC_SCRIPTS[recipe])
        for recipe in recipes
        if library.timed or recipe not in TIMED_RECIPES
    }
    return [Target(name, title, "GE", recipe, text, count, library, timing) for recipe, text in scripts.items()]


def _count_transistors(statistics: Mapping[str, Any]) -> Area:
    cells = _cells(statistics, lambda cell: cell.startswith("$_"), ignored=_MEMORY)
    design = statistics["design"]
    # With memories Yosys says "1234+".
    transistors = int(str(design["estimated_num_transistors"]).rstrip("+"))
    return Area(
        area=transistors,
        combinational=transistors,
        flip_flops=cells.get("$_DFF_P_", 0),
        memory_bits=int(design["num_memory_bits"]),
        cells=cells,
    )


_CMOS = Target("cmos", TARGETS["cmos"], "transistors", "cmos", _TRANSISTORS, _count_transistors)


class _Family(NamedTuple):
    """The cells of an FPGA, latches among flip-flops; ``luts_per_carry``: LUTs that a carry cell takes itself."""

    luts: tuple[str, ...]
    carry: str
    luts_per_carry: int
    flip_flops: tuple[str, ...]
    memories: tuple[str, ...]


# A CCU2C is the two LUT4 of a slice in carry mode; an ALU one; an SB_CARRY shares the logic cell of the LUT that adds,
# and so do the four stages of a CARRY4 theirs. An inverter left over takes a LUT.
_ECP5 = _Family(("LUT4",), "CCU2C", 2, ("TRELLIS_FF",), ("DP16KD", "PDPW16KD"))
_ICE40 = _Family(("SB_LUT4",), "SB_CARRY", 0, ("SB_DFF",), ("SB_RAM40_4K",))
_GOWIN = _Family(("LUT1", "LUT2", "LUT3", "LUT4", "INV"), "ALU", 1, ("DFF", "DL"), ("SDP", "DP", "SP"))
_XILINX7 = _Family(
    (*(f"LUT{n}" for n in range(1, 7)), "INV"),
    "CARRY4",
    0,
    ("FDRE", "FDSE", "FDCE", "FDPE", "LDCE", "LDPE"),
    ("RAMB18E1", "RAMB36E1"),
)


def _fpga(name: str, family: _Family, synthesis: str, *, dsp: str = "") -> Target:
    """The target for an FPGA."""
    counted = (*family.luts, family.carry, dsp)

    def count(statistics: Mapping[str, Any]) -> Area:
        kinds = family.flip_flops + family.memories
        cells = _cells(statistics, lambda cell: cell in counted or cell.startswith(kinds), ignored=_CONSTANTS)
        carries = cells.get(family.carry, 0)
        area = sum(cells.get(lut, 0) for lut in family.luts) + family.luts_per_carry * carries
        return Area(
            area=area,
            combinational=area,
            flip_flops=sum(number for cell, number in cells.items() if cell.startswith(family.flip_flops)),
            carries=carries,
            dsps=cells.get(dsp, 0),
            block_rams=sum(number for cell, number in cells.items() if cell.startswith(family.memories)),
            cells=cells,
        )

    ends = " ".join(f"t:{kind}* %d" for kind in (*family.flip_flops, *family.memories, *([dsp] if dsp else [])))
    script = _LUTS.replace("SYNTHESIS", synthesis).replace("FLIP_FLOPS", ends)
    unit = "LUT6" if "LUT6" in family.luts else "LUT4"
    return Target(name, TARGETS[name], unit, "fpga", script, count, counts_all=not dsp)


# No wide multiplexers: with them one function may take four LUT4 and three multiplexers, and no one number
# says how large a design is. No memories and shift registers made of LUTs, for the same reason.
_TO_ECP5 = "synth_ecp5 -nolutram -nowidelut"
_TO_ICE40 = "synth_ice40"
_TO_GOWIN = "synth_gowin -family gw2a -nodsp -nolutram -nowidelut -noiopads"
_TO_XILINX7 = "synth_xilinx -family xc7 -flatten -nolutram -nosrl -nowidelut -noiopad -noclkbuf"

_FPGAS = {
    target.name: target
    for target in (
        _fpga("ecp5", _ECP5, f"{_TO_ECP5} -nodsp"),
        _fpga("ice40", _ICE40, _TO_ICE40),
        _fpga("gowin", _GOWIN, _TO_GOWIN),
        _fpga("xilinx7", _XILINX7, f"{_TO_XILINX7} -nodsp"),
        _fpga("ecp5-dsp", _ECP5, _TO_ECP5, dsp="MULT18X18D"),
        _fpga("ice40-dsp", _ICE40, f"{_TO_ICE40} -dsp", dsp="SB_MAC16"),
        _fpga("xilinx7-dsp", _XILINX7, _TO_XILINX7, dsp="DSP48E1"),
    )
}


# Cells that drive constants in some families; they are no logic.
_CONSTANTS = frozenset({"GND", "VCC"})

# The ports of memories, and their initial contents.
_MEMORY = frozenset({"$memrd_v2", "$memwr_v2", "$meminit", "$meminit_v2"})


# Yosys's names of cells that hold a bit and that not every target has.
_HOLDING = {
    "$_ALDFF": "flip-flop with asynchronous load",
    "$_DFFSR": "flip-flop with asynchronous set and reset",
    "$_DFF_": "flip-flop with asynchronous set or reset",
    "$_DLATCH": "latch",
}


def _named(cell: str) -> str:
    """A cell's name, with a description where the name is one of :data:`_HOLDING`."""
    words = next((words for start, words in _HOLDING.items() if cell.startswith(start)), "")
    return f"{cell} ({words})" if words else cell


def _cells(
    statistics: Mapping[str, Any], counts: Callable[[str], bool], *, ignored: Set[str] = frozenset()
) -> dict[str, int]:
    """Number of cells of each type; raises :exc:`UnmappedError` for a type that does not count."""
    # Instances of the design's own modules are among the cells; their contents are counted already.
    # $scopeinfo remembers the hierarchy of a flattened design; it is no hardware.
    cells = {
        cell: number
        for cell, number in statistics["design"]["num_cells_by_type"].items()
        if cell != "$scopeinfo" and cell not in ignored and f"\\{cell}" not in statistics["modules"]
    }
    strangers = [_named(cell) for cell in cells if not counts(cell)]
    if strangers:
        raise UnmappedError(f"cells that cannot be counted on this target: {', '.join(strangers)}")
    return dict(sorted(cells.items()))
