"""Designs that are refused before Yosys maps them."""

import pytest

from openmxu.area.run.measure import measure
from openmxu.area.subject.foreign import named_point
from openmxu.area.target.targets import choose_targets
from openmxu.yosys import SynthesisError

HALF = "module \\half\n  memory width 64 size 67108864 \\ram\n  memory size 1 \\bit\nend\n"
DESIGN = "module \\openmxu_design\n  cell \\half \\a\n  end\n  cell \\half \\b\n  end\n%send\n"
MOST = "memories must have at most 2,147,483,647 bits, not "


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        # One memory, as by itself; two halves and a bit each; nearly too much, which Yosys gets.
        ("module \\openmxu_design\n  memory width 64 size 134217728 \\ram\nend\n", f"{MOST}8,589,934,592"),
        ("module \\openmxu_design\n  memory size 2147483648 offset 4 \\ram\nend\n", f"{MOST}2,147,483,648"),
        (HALF + DESIGN % "", f"{MOST}8,589,934,594"),
        ("module \\openmxu_design\n  memory size 2147483647 \\ram\nend\n", "Yosys is asked"),
        (HALF + DESIGN.replace("cell \\half", "cell $not") % "", "Yosys is asked"),
    ],
)
@pytest.mark.parametrize("target", ["generic", "cmos", "ecp5"])
def test_memories_beyond_what_yosys_counts(text: str, problem: str, target: str) -> None:
    """Its sum of bits has 32: a memory of 2^33 bits was one of none, and of 2^31 one of less than none."""

    def execute(*_: object) -> bytes:
        raise SynthesisError("Yosys is asked")

    [chosen] = choose_targets([target], [], ["area"])
    point = named_point("it", text)
    assert measure(point, point.rtlil(), chosen, execute).error == problem
