"""Memories as modules of their own: the same unit, whatever stands in their place."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Fragment, Module
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from openmxu.catalog import build
from openmxu.export.memories import WrappedMemory
from openmxu.export.verilog import to_rtlil, to_verilog
from openmxu.unit.array import SystolicArray
from openmxu_sim.cosim.runner import BenchFailedError

from ...conftest import Bench, slow
from ...miter import compare
from ..conftest import needs_icarus
from .conftest import SMALL, cells, lint_text

# Written against what the page says of the ports, not against the module of the export. What is not promised is
# unknown: words that were never written, a word that is read while it is written, and what has never been read.
_OTHER = """
module other #(parameter DEPTH = 2, WIDTH = 1) (
  input clk, input read_en, input [$clog2(DEPTH)-1:0] read_addr, output reg [WIDTH-1:0] read_data,
  input write_en, input [$clog2(DEPTH)-1:0] write_addr, input [WIDTH-1:0] write_data);
  reg [WIDTH-1:0] words [0:DEPTH-1];
  always @(posedge clk) begin
    if (write_en) words[write_addr] <= write_data;
    if (read_en) read_data <= write_en && write_addr == read_addr ? COLLISION : words[read_addr];
  end
endmodule
"""


def wrapped(text: str) -> dict[str, tuple[int, int, int, int]]:
    """Modules of memories: depth, width, reads, writes."""
    names = re.findall(r"^module (\w+_memory_d(\d+)_w(\d+)_r(\d+)w(\d+))\(", text, re.MULTILINE)
    return {name: tuple(map(int, shape)) for name, *shape in names}


def replaced(text: str, other: str = _OTHER, collision: str = "{WIDTH{1'bx}}") -> str:
    """The same file without the bodies of memories: each read port has a memory, as foundries have one of each."""
    modules = other.replace("COLLISION", collision)
    for name, (depth, width, reads, writes) in wrapped(text).items():
        assert writes == 1
        high, top = (depth - 1).bit_length() - 1, width - 1
        ports = ["input clk", f"input write_0_en, input [{high}:0] write_0_addr, input [{top}:0] write_0_data"]
        ports += [
            f"input read_{port}_en, input [{high}:0] read_{port}_addr, output [{top}:0] read_{port}_data"
            for port in range(reads)
        ]
        copies = "".join(
            f"  other #({depth}, {width}) copy_{port}(clk, read_{port}_en, read_{port}_addr, read_{port}_data, "
            "write_0_en, write_0_addr, write_0_data);\n"
            for port in range(reads)
        )
        modules += f"`define {name}\nmodule {name}({', '.join(ports)});\n{copies}endmodule\n"
    return modules + text


BUS = {**SMALL, "splitter": True, "result": "bf16"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("design", "options", "change", "how"),
    [
        ("mxu_2x2", SMALL, str, {"count": 200}),
        ("mxu_2x2", SMALL, replaced, {"count": 200, "simulator": "icarus"}),
        ("mxu_2x2_axi", BUS, replaced, {"count": 500, "simulator": "icarus", "timeout": 240}),
    ],
)
def test_a_wrapped_unit(bench: Bench, design: str, options: Any, change: Any, how: Any) -> None:
    """On the bench of the unit: bits, cycles, stalls. Another memory in its place promises no more than the page."""
    text = change(to_verilog(build(design, **options), memories="wrapped"))
    bench(design, options, mutate=lambda _: text, **how)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("if (read_en) read_data <=", "read_data <="),
        ("words[write_addr] <= write_data", "words[0] <= write_data"),
        ("if (write_en) words", "words"),
    ],
)
def test_a_wrong_memory_is_seen(bench: Bench, right: str, wrong: str) -> None:
    """So it is the memory in place of the module that the unit uses."""
    assert _OTHER.count(right) == 1
    text = replaced(to_verilog(build("mxu_2x2", **SMALL), memories="wrapped"), _OTHER.replace(right, wrong))
    with pytest.raises(BenchFailedError, match="failed: "):
        bench("mxu_2x2", SMALL, count=200, simulator="icarus", mutate=lambda _: text)


@pytest.mark.slow
@needs_icarus
@pytest.mark.parametrize("options", [{"bus": "axi"}, {"stages": 6, "columns": 3}])
def test_wrapped_beside_inline(options: dict[str, Any], tmp_path: Path) -> None:
    """All outputs in each cycle for any inputs, mistakes of senders included; no word is read while it is written."""
    unit, same = (build("mxu", **SMALL | options) for _ in range(2))
    texts = ("one", to_verilog(unit, name="one", memories="wrapped")), ("two", to_verilog(same, name="two"))
    said, counts = compare(unit, *texts, tmp_path, cycles=600)
    assert said == "equal"
    assert counts["results"] > 100
    zero = _OTHER.replace("  always", "  integer n; initial for (n = 0; n < DEPTH; n = n + 1) words[n] = 0;\n  always")
    other = "one", replaced(texts[0][1], zero)
    assert compare(unit, other, texts[1], tmp_path, cycles=600) == (said, counts)


@pytest.mark.parametrize("name", ["mxu_2x2", slow("mxu_2x2_axi")])
def test_modules(name: str, tmp_path: Path) -> None:
    """If asked for, one for each shape, with the ports that it documents; lint-clean, with another memory too."""
    plain = to_verilog(build(name))
    assert plain == to_verilog(build(name), memories="inline")
    assert "`" not in plain
    assert not wrapped(plain)
    text = to_verilog(build(name), name="unit", memories="wrapped", prefix="my")
    found = wrapped(text)
    assert found == {"my_memory_d512_w32_r2w1": (512, 32, 2, 1), "my_memory_d512_w1_r1w1": (512, 1, 1, 1)}
    for module, shape in found.items():
        [(comment, head)] = re.findall(
            rf"^/\* ({module}: .*?) \*/\n`ifndef {module}\nmodule {module}\((.*?)\);$", text, re.MULTILINE | re.DOTALL
        )
        memory = WrappedMemory(*shape)
        Fragment.get(memory, None)  # Amaranth warns of components that nobody elaborates
        assert set(head.split(", ")) == set(memory.signature.members)
        assert "read_N_addr" in comment
    assert text.count("\n`endif\n") == len(found)
    inside = re.sub(r"^`ifndef.*?^`endif", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"reg .*\[\d+:0\];", inside), "no memory is anywhere else"
    lint_text(text, "unit", tmp_path)
    off, on = (f"/* verilator lint_{state} DECLFILENAME */\n" for state in ("off", "on"))
    lint_text(off + replaced(text, collision="words[read_addr]") + on, "unit", tmp_path)


@pytest.mark.slow
def test_yosys_reads_them() -> None:
    """The same flip-flops and memories as inline; and only boxes where their bodies are left out."""
    options = {"rows": 1, "columns": 2, "depth": 4}
    texts = {each: to_verilog(build("mxu", **options), memories=each, prefix="my") for each in ("inline", "wrapped")}
    script = "synth -flatten -top mxu -run begin:fine\nopt_clean\ncheck -assert"
    inline, wrapping = (
        {cell: count for cell, count in cells(text, script).items() if re.match(r"\$mem|\$.*dff", cell)}
        for text in texts.values()
    )
    assert inline == wrapping
    assert wrapping["$mem_v2"] == options["columns"] + 1

    defines = " ".join(f"-D {name}" for name in wrapped(texts["wrapped"]))
    boxes = "".join(
        f"(* blackbox *)\n{part.partition('`endif')[0].partition('  reg ')[0]}endmodule\n"
        for part in re.split(r"^`ifndef.*\n", texts["wrapped"], flags=re.MULTILINE)[1:]
    )
    read = f"read_verilog {defines} /job/design.il\nread_verilog <<boxes\n{boxes}boxes"
    found = cells(texts["wrapped"], script, read=read)
    assert {cell: count for cell, count in found.items() if cell.startswith("my_")} == {
        "my_memory_d4_w32_r2w1": options["columns"],
        "my_memory_d4_w1_r1w1": 1,
    }


class _Lookup(wiring.Component):
    """A memory of its own kind."""

    def __init__(self, init: list[int], *, transparent: bool = False, domain: str = "sync", width: Any = 8):
        self._memory = Memory(shape=width, depth=4, init=init)
        write = self._memory.write_port()
        self._ports = write, self._memory.read_port(domain=domain, transparent_for=[write] * transparent)
        super().__init__({"i": In(2), "o": Out(8)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = self._memory
        write, read = self._ports
        m.d.comb += [write.addr.eq(self.i), read.addr.eq(self.i), self.o.eq(read.data), write.en.eq(1)]
        return m


@pytest.mark.parametrize(
    ("lookup", "count"),
    [
        (lambda: _Lookup([]), 1),
        (lambda: _Lookup([0, 0]), 1),
        (lambda: _Lookup([], width=data.StructLayout({"a": 3, "b": 5})), 1),
        (lambda: _Lookup([0, 5]), 0),
        (lambda: _Lookup([], transparent=True), 0),
        (lambda: _Lookup([], domain="comb"), 0),
    ],
    ids=["plain", "zeros", "structure", "contents", "transparent", "asynchronous"],
)
def test_memories_of_other_designs(lookup: Callable[[], Any], count: int) -> None:
    """Those with more than a macro has stay where they are."""
    text = to_verilog(lookup(), name="lookup", memories="wrapped", prefix="my")
    assert list(wrapped(text)) == ["my_memory_d4_w8_r1w1"] * count
    assert len(re.findall(r"reg .*\[3:0\];", text)) == 1


def test_modules_without_content() -> None:
    """They have the ports of those with content, clock and reset apart, which a memory has only one of."""
    texts = (
        to_rtlil(build("mxu", rows=2, columns=2, depth=4), name="unit", memories="wrapped", hollow=hollow)
        for hollow in ((), (SystolicArray,))
    )
    full, bare = (dict(re.findall(r"^module \\(\w+)\n(.*?)^end$", text, re.MULTILINE | re.DOTALL)) for text in texts)
    hollow = [name for name, body in bare.items() if "cell" not in body]
    assert any(name.startswith("array") for name in hollow)
    assert any(name.startswith("memory_d4") for name in hollow)
    ports = re.compile(r"wire width (\d+) (input|output) \d+ +\\([a-z]\w+)$", re.MULTILINE)
    for name in hollow:
        assert {*ports.findall(full[name])} == {*ports.findall(bare[name])} != set(), name
