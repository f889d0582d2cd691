"""Two exported designs side by side in Icarus Verilog: the same random inputs, and outputs that must not differ."""

import re
from pathlib import Path
from typing import Any

from amaranth.hdl import Value
from amaranth.lib.wiring import Out

from .conftest import ran

_BENCH = """\
module bench;
  reg clock = 0, enable = 1, often = 0, reset = 1;
  reg [WIDTH-1:0] inputs = 0;
  wire [OUTPUTS-1:0] left, right;
  integer cycle, seed = 1, enabled = 0, resets = 0, offered = 0;
  wire gated = clock & enable;
  LEFT;
  RIGHT;
  initial begin
    for (cycle = 0; cycle < CYCLES; cycle = cycle + 1) begin
      if (cycle % 50 == 0) often = $random(seed);
      enable = cycle == 0 || ALWAYS || ($random(seed) & 3) < (often ? 3 : 1);
      reset = cycle == 0 || ($random(seed) & (enable ? 255 : 7)) == 0;
      inputs = {RANDOM};
      #4;
      if (left !== right) begin
        $display("cycle %0d: %h, %h", cycle, left, right);
        $finish;
      end
      enabled = enabled + enable;
      resets = resets + (reset & ~enable);
      offered = offered + (enable & VALID);
      #1 clock = 1;
      #5 clock = 0;
    end
    $display("equal; %0d enabled, %0d resets of none, %0d results", enabled, resets, offered);
  end
endmodule
"""


def icarus(text: str, work: Path, language: str = "2012") -> str:
    """What the module ``bench`` prints."""
    source, program = work / "bench.v", work / f"bench_{language}"
    source.write_text(text)
    ran(["iverilog", f"-g{language}", "-s", "bench", "-o", program, source], check=True, timeout=60)
    return ran(["vvp", "-n", program], check=True, timeout=100).stdout.strip()


def members(component: Any) -> dict[str, tuple[bool, int]]:
    """The ports of a component, but for those of its clock: which are outputs, and how wide they are."""
    return {
        "__".join(map(str, path)): (member.flow == Out, len(Value.cast(value)))
        for path, member, value in component.signature.flatten(component)
        if path[-1] not in ("clk", "rst", "aclk", "aresetn")
    }


def compare(
    component: Any, left: tuple[str, str], right: tuple[str, str], work: Path, *, enable: str = "", cycles: int = 3000
) -> tuple[str, dict[str, int]]:
    """Run two exports of ``component``, each a name and a text, on the same inputs.

    The clock of the right one is gated. If the left one has a port ``enable``, this is low where the gate is closed;
    else the gate is always open. Inputs change in every cycle, and reset now and then, whatever the gate does.

    Returns what was seen first: ``"equal"`` or a difference; and how often what happened.
    """
    head = left[1].rpartition(f"\nmodule {left[0]}(")[2].partition(";")[0]
    clock, reset = ("aclk", "aresetn") if re.search(r"\baclk\b", head) else ("clk", "rst")
    low = {True: 0, False: 0}
    places: dict[str, str] = {}
    for port, (is_output, width) in members(component).items():
        places[port] = f"{'SIDE' if is_output else 'inputs'}[{low[is_output]} +: {width}]"
        low[is_output] += width
    places[reset] = "reset" if reset == "rst" else "~reset"
    valids = (place for port, place in places.items() if re.fullmatch(r"((m_axis_)?results|o)_+t?valid", port))

    def instance(name: str, side: str, more: dict[str, str]) -> str:
        ports = ", ".join(f".{port}({place})" for port, place in (places | more).items())
        return f"{name} {side}_design({ports.replace('SIDE', side)})"

    text = _BENCH
    for word, value in {
        "WIDTH": low[False],
        "OUTPUTS": low[True],
        "CYCLES": cycles,
        "ALWAYS": int(not enable),
        "RANDOM": ", ".join(["$random(seed)"] * (-(-low[False] // 32))),
        "VALID": next(valids, "1").replace("SIDE", "left"),
        "LEFT": instance(left[0], "left", {clock: "clock"} | ({enable: "enable"} if enable else {})),
        "RIGHT": instance(right[0], "right", {clock: "gated"}),
    }.items():
        text = re.sub(rf"\b{word}\b", str(value).replace("\\", r"\\"), text)
    said, _, counts = icarus(left[1] + right[1] + text, work).partition("; ")
    return said, {what: int(count) for count, what in re.findall(r"(\d+) ([^,]+)", counts)}
