"""Exported Verilog out of reset: known at once, whatever was there before, in a plain test bench of either language."""

import re
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from openmxu.catalog import CATALOG, build
from openmxu.export.verilog import to_verilog

from ...conftest import slow, thorough
from ...miter import icarus, members
from ..conftest import needs_icarus

pytestmark = needs_icarus

_LANGUAGES = ("2005", "2012")

_STARTS = {
    "declared": ("reg reset = 1;", "", 3),
    "declared_short": ("reg reset = 1;", "", 1),
    "stated": ("reg reset; initial reset = 1;", "", 1),
    "unknown": ("reg reset;", "repeat (2) @(negedge clock); reset = 1;", 1),
    "late": ("reg reset = 0;", "repeat (30) begin @(negedge clock); if (BEFORE) INPUTS = RANDOM; end reset = 1;", 2),
}
"""How reset is declared, how it rises, and over how many edges of the clock it is held."""

_BEFORE = {"x": "{WIDTH{1'bx}}", "zero": "{WIDTH{1'b0}}", "random": "RANDOM"}
"""The inputs up to the end of reset."""

_RUN = """\
module run_{run}(output reg done);
  localparam WIDTH = {width}, BEFORE = {is_random};
  reg clock = 0;
  always #5 clock = ~clock;
  {declared}
  {wires}
  {name} dut({connections});
  integer cycle;
  initial begin
    done = 0;
    INPUTS = {before};
    {rises}
    repeat ({held}) @(posedge clock);
    #1 reset = 0;
    for (cycle = 0; cycle < {cycles}; cycle = cycle + 1) begin
      INPUTS = RANDOM;
      {idle}
      #1;
      if (cycle >= {settled} && (^{{{known}}} === 1'bx{offered})) begin
        $display("run_{run}, cycle %0d: %b", cycle, {{{known}}});
        $finish;
      end
      @(posedge clock);
      #1;
    end
    done = 1;
  end
endmodule
"""


def bench(component: Any, name: str, text: str, starts: list[tuple[str, str]], cycles: int) -> str:
    """A test bench that says ``known`` if no run had an unknown output that must be known.

    Random beats are offered; what goes with a valid mark is unknown while that is not set.
    These are all valid and ready and what a unit says of itself, at once; what is offered while it is valid between
    a stream's arithmetic, and all outputs of a design without streams, when operands have passed it.
    """
    header = text[text.rindex(f"\nmodule {name}(") :].partition(";")[0]
    ports = set(re.findall(r"[\w$]+", header[header.index("(") :]))
    clock, reset, level = ("aclk", "aresetn", "~") if "aclk" in ports else ("clk", "rst", "")
    found = members(component)
    outputs, inputs = ([port for port, (is_out, _) in found.items() if is_out == which] for which in (True, False))
    wires = {clock: "clock", reset: f"{level}reset"}
    wires = {port: port for port in found} | {port: wire for port, wire in wires.items() if port in ports}
    idle = [
        f"if (!{port}) {beside} = 'bx;"
        for port in inputs
        if port.endswith("valid")
        for beside in inputs
        if beside.startswith(port.removesuffix("valid").removesuffix("t")) and not beside.endswith(("valid", "ready"))
    ]
    known = [port for port in outputs if re.search(r"(valid|ready)$|^status__", port)]
    offered = " || o__valid === 1 && ^o__payload === 1'bx" if "o__valid" in outputs else ""
    width = sum(found[port][1] for port in inputs)
    runs = "".join(
        _RUN.format(
            run=f"{start}_{before}",
            width=width,
            is_random=int(before == "random"),
            **dict(zip(("declared", "rises", "held"), _STARTS[start], strict=True)),
            wires=" ".join(f"{'wire' if out else 'reg'} [{bits - 1}:0] {port};" for port, (out, bits) in found.items()),
            name=name,
            connections=", ".join(f".{port}({wire})" for port, wire in wires.items()),
            before=_BEFORE[before],
            cycles=cycles,
            settled=0 if known else cycles // 2,
            known=", ".join(known or outputs),
            offered=offered,
            idle=" ".join(idle),
        )
        for start, before in starts
    )
    words = ", ".join(["$random"] * (-(-width // 32)))
    runs = runs.replace("RANDOM", f"{{{words}}}").replace("INPUTS", f"{{{', '.join(inputs)}}}")
    instances = "".join(f"  run_{start}_{before} r{n}(done[{n}]);\n" for n, (start, before) in enumerate(starts))
    return (
        f"{runs}module bench;\n  wire [{len(starts) - 1}:0] done;\n{instances}"
        '  always @(&done) if (&done) begin $display("known"); $finish; end\nendmodule\n'
    )


# The smallest units: Icarus is slow, and all that a reset clears has no size.
_SMALL = {"depth": 4, "rows": 1, "columns": 1}
_SMALL_DESIGNS = [name for name, design in CATALOG.items() if design.cells <= 4]
_UNITS = [f"mxu_{each}" for each in ("2x2_splitter", "2x2_status", "2x2_axi", "4x4_ieee", "4x4_pipelined")]


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        *(slow(name, _SMALL) for name in _UNITS),
        *(mark(name, {}) for mark, name in zip(cycle((slow, thorough)), _SMALL_DESIGNS)),
    ],
)
def test_known_from_reset_on(name: str, overrides: dict[str, int], tmp_path: Path) -> None:
    """In all ways that a reset can begin; in larger units, which have the same parts, in two."""
    component = build(name, **overrides)
    text = to_verilog(component, name=name)
    starts = [(start, before) for start in _STARTS for before in _BEFORE]
    if CATALOG[name].cells > 1 and not overrides:
        starts = [("declared", "x"), ("late", "random")]
    whole = text + bench(component, name, text, starts, 60)
    assert {icarus(whole, tmp_path, language) for language in _LANGUAGES} == {"known"}


def test_the_bench_sees_what_is_unknown(tmp_path: Path) -> None:
    """A register without reset and without initial value, which a valid mark depends on."""
    component = build("stream_converter")
    text = to_verilog(component, name="it")
    assert text.count("  initial o__valid = 1'h0;\n") == text.count("rst ? 1'h0 : ") == 1
    broken = text.replace("  initial o__valid = 1'h0;\n", "").replace("rst ? 1'h0 : ", "")
    broken += bench(component, "it", text, [("declared", "x")], 20)
    assert "declared_x, cycle 0: " in icarus(broken, tmp_path)


@pytest.mark.parametrize("language", _LANGUAGES)
def test_square_in_a_plain_bench(language: str, tmp_path: Path) -> None:
    """A reset that is on from its declaration, and the square of (1 2; 3 4), which is (7 10; 15 22)."""
    square = (Path(__file__).parents[3] / "docs" / "examples" / "square.v").read_text()
    unit = to_verilog(build("mxu", rows=2, columns=2, depth=4, status=True))
    around = """
module bench;
  reg clk = 0, rst = 1, start = 0;
  always #5 clk = ~clk;
  wire busy, done;
  wire [127:0] y;
  wire [2:0] error;
  square dut(clk, rst, start, 128'h40800000_40400000_40000000_3f800000, busy, done, y, error);
  initial begin
    @(posedge clk) #1 rst = 0;
    @(posedge clk) #1 start = 1;
    @(posedge clk) #1 start = 0;
    repeat (60) @(posedge clk);
    $display("%b %b %0d %h", busy, done, error, y);
    $finish;
  end
endmodule
"""
    assert icarus(unit + square + around, tmp_path, language) == "0 1 0 41b000004170000041200000" + "40e00000"
