"""An exported design with a clock enable: as if the clock had only the edges at which it is high."""

import re
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import ClockDomain, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from openmxu.catalog import build
from openmxu.export.integration import to_template, to_vhdl_template
from openmxu.export.verilog import to_rtlil, to_verilog

from ...conftest import slow
from ...miter import compare
from ..conftest import needs_icarus
from .conftest import SMALL, cells, lint_text


class _Words(wiring.Component):
    """A memory with all that those of a unit do not have, and a counter in front of it."""

    def __init__(self) -> None:
        super().__init__({"i_en": In(4), "i": In(16), "o": Out(16), "o_old": Out(16), "o_now": Out(16)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=16, depth=6, init=[1, 2, 3])
        write = memory.write_port(granularity=4)
        new = memory.read_port(transparent_for=[write])
        old, now = memory.read_port(), memory.read_port(domain="comb")
        count = Signal(range(6), init=2)
        with m.If(count == 5):
            m.d.sync += count.eq(0)
        with m.Else():
            m.d.sync += count.eq(count + 1)
        m.d.comb += [write.addr.eq(count), write.data.eq(self.i), write.en.eq(self.i_en)]
        m.d.comb += [new.addr.eq(count), old.addr.eq(count), now.addr.eq(count), old.en.eq(self.i[0])]
        m.d.comb += [self.o.eq(new.data), self.o_old.eq(old.data), self.o_now.eq(now.data)]
        return m


class _Taken(wiring.Component):
    """A register with a name and a kind of reset of one's choice."""

    def __init__(self, name: str, *, asynchronous: bool) -> None:
        self._name, self._asynchronous = name, asynchronous
        super().__init__({"clk": In(1), "rst": In(1), "i": In(1), "o": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = domain = ClockDomain("sync", async_reset=self._asynchronous)
        domain.clk, domain.rst = self.clk, self.rst
        register = Signal(name=self._name)
        m.d.sync += register.eq(self.i ^ register)
        m.d.comb += self.o.eq(register)
        return m


_unit = partial(build, "mxu", **SMALL)


def side_by_side(
    make: Any, work: Path, *, memories: str = "inline", change: tuple[str, str] = ("", ""), cycles: int = 600
) -> tuple[str, dict[str, int]]:
    """A design with the enable beside the same one behind a clock gate."""
    enabled = to_verilog(make(), name="enabled", memories=memories, clock_enable=True, prefix="one")
    assert change[0] in enabled
    enable = "aclken" if "aclken" in enabled else "clk_en"
    right = "plain", to_verilog(component := make(), name="plain", prefix="other")
    return compare(component, ("enabled", enabled.replace(*change, 1)), right, work, enable=enable, cycles=cycles)


@needs_icarus
@pytest.mark.parametrize(
    ("memories", "options"),
    [
        ("wrapped", {}),
        slow("inline", {"bus": "axi"}),
        slow("wrapped", {"splitter": True, "status": True, "columns": 2}),
        slow("inline", {"stages": 6, "subnormals": "ieee"}),
    ],
    ids=["plain", "axi", "options", "pipelined"],
)
def test_units(memories: str, options: dict[str, Any], tmp_path: Path) -> None:
    """All outputs in all cycles, at enabled edges and between them, with resets that no edge takes."""
    said, counts = side_by_side(partial(_unit, **options), tmp_path, memories=memories)
    assert said == "equal"
    assert 200 < counts["enabled"] < 400
    assert counts["resets of none"] > 20
    assert counts["results"] > 40


@needs_icarus
@pytest.mark.parametrize("make", [_Words, *(slow(partial(build, name)) for name in ("stream_adder", "pe_pipelined"))])
def test_other_designs(make: Any, tmp_path: Path) -> None:
    assert side_by_side(make, tmp_path, cycles=1000)[0] == "equal"


@needs_icarus
@pytest.mark.parametrize(
    ("make", "change"),
    [
        (_unit, ("if (clk_en) psum <=", "psum <=")),
        slow(_unit, ("if (clk_en) o_valid <=", "o_valid <=")),
        slow(_unit, (".clk_en(clk_en)", ".clk_en(1'b1)")),
        slow(_Words, ("clk_en ? i[0] : 1'h0", "i[0]")),
        (_Words, ("clk_en ? i_en[0] : 1'h0", "i_en[0]")),
    ],
    ids=["data", "mark", "instance", "read", "write"],
)
def test_what_is_not_enabled_is_seen(make: Any, change: tuple[str, str], tmp_path: Path) -> None:
    said, _ = side_by_side(make, tmp_path, change=change)
    assert re.match(r"cycle \d+: ", said)


@pytest.mark.slow
@pytest.mark.parametrize("memories", ["inline", "wrapped"])
def test_every_register_has_it(memories: str) -> None:
    """By Yosys, from the Verilog: as many bits as before, and an enable that comes before any reset."""
    found = []
    for enabled in (False, True):
        text = to_verilog(build("mxu_2x2_axi", **SMALL), memories=memories, clock_enable=enabled)
        counts = cells(text, "prep -flatten -top mxu_axi\nopt_dff\nsplitcells")
        found.append(Counter({cell: count for cell, count in counts.items() if "ff" in cell or "mem" in cell}))
    assert set(found[1]) == {"$dffe", "$sdffce", "$mem_v2"}
    assert found[0]["$mem_v2"] == found[1]["$mem_v2"]
    assert found[0].total() == found[1].total() > 200


@pytest.mark.parametrize(
    ("name", "port"), [slow("mxu_2x2", "clk_en"), slow("mxu_2x2_axi", "aclken"), ("stream_adder", "clk_en")]
)
def test_the_port(name: str, port: str, tmp_path: Path) -> None:
    """One bit in, in the templates, too; no linter has anything to say; and without the option there is none."""
    component = build(name)
    assert port not in to_verilog(component)
    text = to_verilog(build(name), name="it", clock_enable=True, ports="flat")
    module = text[text.rindex("\nmodule it(") :]
    assert f"\n  input {port};\n" in module
    assert f"  .{port}({port})" in to_template(component, text, name="it", ports="flat")
    assert f"      {port} : in std_logic" in to_vhdl_template(component, text, name="it", ports="flat")
    lint_text(text, "it", tmp_path)


def test_wrapped_memories_have_no_enable() -> None:
    """A macro has none: the enables of its ports are low."""
    text = to_rtlil(build("mxu_2x2"), memories="wrapped", clock_enable=True)
    for module in re.findall(r"^module \\memory_.*?^end$", text, re.MULTILINE | re.DOTALL):
        assert "clk_en" not in module
    connected = re.findall(r"^    connect \\(?:read|write)_\d_en (.*)$", text, re.MULTILINE)
    assert len(connected) == 5
    assert all(re.fullmatch(r"\$clk_en\$\d", signal) for signal in connected)


@pytest.mark.parametrize(
    ("name", "asynchronous", "complaint"),
    [("clk_en", False, "with a signal called clk_en"), ("register", True, "with asynchronous resets")],
)
def test_designs_that_cannot_have_it(name: str, asynchronous: bool, complaint: str) -> None:
    plain, enabled = (_Taken(name, asynchronous=asynchronous) for _ in range(2))
    assert to_verilog(plain, name="it")
    with pytest.raises(ValueError, match=f"clock_enable must be False for a design {complaint}, not True"):
        to_verilog(enabled, name="it", clock_enable=True)
