"""A build's plan: the files that the tools read, and the commands that call them."""

import json
import re
from dataclasses import dataclass

from openmxu.export.verilog import to_rtlil
from openmxu.spec.forms import FPGA
from openmxu_boards import tools
from openmxu_boards.bitstream.top import Design, Emitted, Top, check_uart, selftest
from openmxu_boards.devices.boards import Board
from openmxu_boards.families import Family, family_of

_DESIGN = "design"

SUMMARY, ROUTED, PLACEMENT, FIGURES = "report.json", "routed.json", "placement.svg", "nextpnr.json"
"""The report on a build, the netlist after routing, the drawing of where the parts lie, and nextpnr's own report."""

_AFTERWARDS = {"dfu-suffix"}
"""Steps of platforms on a finished bitstream that its loader does not need."""


@dataclass(frozen=True)
class Plan:
    """The way of a design to a board's bitstream."""

    board: Board
    family: Family
    name: str
    """Name of the design."""
    source: int
    frequency: int
    """Frequencies of the oscillator and of the design's clock, in Hz."""
    files: dict[str, str | bytes]
    synthesis: list[str]
    placement: list[str]
    packing: list[list[str]]
    """The commands."""

    @property
    def routed(self) -> str:
        """The netlist after routing, as the packer calls it."""
        return self.placement[self.placement.index("--write") + 1]

    @property
    def bitstream(self) -> str:
        """The file that is loaded."""
        return f"{self.name}.{self.family.bitstream}"

    @property
    def written(self) -> dict[str, str]:
        """The files that a build leaves, and their names while it works."""
        # A bitstream that cannot be unpacked is checked by the netlist that it was packed from.
        routed = {} if self.family.unpacks else {ROUTED: self.routed}
        same = {name: name for name in (FIGURES, PLACEMENT, self.bitstream)}
        # The summary comes last: where it exists, all files do.
        return {"yosys.log": f"{self.name}.rpt", "nextpnr.log": f"{self.name}.tim", **same, **routed, SUMMARY: SUMMARY}

    def advice(self, ratio: float) -> str:
        """The clock to try where the one of the plan is met only in part."""
        would = self.family.pll.slower(self.source, self.frequency * ratio)
        return "its PLL has no setting that meets timing" if would is None else f"--clock {would:g} would be met"


def make_plan(board: Board, design: Design = selftest, name: str = "selftest") -> Plan:
    """The plan of a design on a board.

    Raises
    ------
    ValueError
        The clock cannot be made, or the board lacks a UART that the design has.
    OSError
        A tool is not installed.
    """
    platform = board.new_platform()
    family, source = family_of(platform), round(platform.default_clk_frequency)
    frequency = family.pll.made(source, board.frequency)
    overrides = {"synth_opts": family.synthesis(platform), "nextpnr_opts": family.placement} | dict(board.overrides)
    component = design(board.config, frequency)
    text = to_rtlil(component, name=_DESIGN, form=FPGA)
    check_uart(component, board)  # before the platform's files are made; Amaranth warns of what is never elaborated
    platform.add_file(f"{_DESIGN}.il", text)
    # The design's own module comes last. A module without registers has no clock.
    clocked = re.search(r"^ *wire .*input \d+ +\\clk$", text.rpartition("\nmodule ")[2], re.MULTILINE) is not None
    # nextpnr does not fail if the design is too slow: its figures are still wanted.
    figures = [f"--freq {frequency / 1e6:.6f}", f"--report {FIGURES}", "--timing-allow-fail"]
    made = platform.build(
        Top(Emitted(component, _DESIGN, clocked=clocked), board, family.pll),
        name=name,
        do_build=False,
        emit_src=False,  # source locations depend on the machine
        **overrides | {"nextpnr_opts": " ".join([*figures, overrides["nextpnr_opts"]])},
    )
    commands = [line for line in json.loads(made.files[f"build_{name}.json"])["commands"] if line[0] not in _AFTERWARDS]
    synthesis, placement, *packing = commands
    if "--write" not in placement:  # Gowin's packer reads the written netlist already
        placement += ["--write", ROUTED]
    tools.check([command[0] for command in commands])
    return Plan(board, family, name, source, frequency, dict(made.files), synthesis, placement, packing)
