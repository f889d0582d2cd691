"""Exported Verilog: hierarchical, accepted by three tools without a warning, the same as what is simulated."""

import gc
import itertools
import re
from functools import partial
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from openmxu import yosys
from openmxu.catalog import CATALOG, build
from openmxu.export.verilog import to_rtlil, to_verilog
from openmxu.unit.hierarchy import repeat

from ...conftest import slow, thorough
from ...linters import verilator_lint
from .conftest import lint_text

_SMALL = [name for name, design in CATALOG.items() if design.cells <= 64]
_QUICK = ("adder", "splitter", "pe", "mxu_2x2_axi")


@pytest.mark.parametrize("name", [*_QUICK, *(slow(name) for name in _SMALL if name not in _QUICK)])
def test_small_designs_are_lint_clean(name: str, tmp_path: Path) -> None:
    text = to_verilog(build(name), name=name)
    lint_text(text, name, tmp_path)
    # All but registers is assigned: in simulators of SystemVerilog, an ``always @*`` may wait for ever.
    assert all(re.match(r"always @\(posedge \w+\)", waits) for waits in re.findall(r"\balways\b.*", text))


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("mxu_16x16", ("row_bf16_flush_s1_c16", "array_bf16_flush_s1_r16_c16")),
        thorough("mxu", ("row_bf16_flush_s1_c128", "array_bf16_flush_s1_r16_c128", "array_bf16_flush_s1_r128_c128")),
    ],
)
def test_large_units_are_lint_clean_and_hierarchical(name: str, modules: tuple[str, ...], tmp_path: Path) -> None:
    text = to_verilog(build(name), name="mxu", prefix="unit")
    assert len(text) < 1_000_000
    for module in ("pe_bf16_flush_s1", *modules):
        assert text.count(f"\nmodule unit_{module}(") == 1
    # Both linters expand every instance, which takes them 20 GiB for 128x128; the processing element has been
    # linted by itself, so that its ports are enough.
    whole = re.MULTILINE | re.DOTALL
    [element] = re.findall(r"^module unit_pe_bf16_flush_s1\(.*?^endmodule\n", text, whole)
    ports = re.findall(r"^  (?:input|output) .*;$", element, re.MULTILINE)
    assert len(ports) == 12
    # A box of which only the ports are seen leaves all of them unused.
    off, on = (f"/* verilator lint_{state} UNDRIVEN */\n" for state in ("off", "on"))
    stub = "\n".join([f"{off}{element.partition(';')[0]};", *ports, f"endmodule\n{on}"])
    rest = re.sub(r"^module unit_pe_bf16_flush_s1_\w+\(.*?^endmodule\n", "", text, flags=whole)
    lint_text(rest.replace(element, stub), "mxu", tmp_path)


@pytest.mark.parametrize("name", [slow("mxu_2x2"), "mxu_2x2_axi", "multiplier_fp16", "adder_ieee"])
def test_no_more_is_kept_from_verilator_than_is_said(name: str, tmp_path: Path) -> None:
    """Within the file, and up to its end."""
    text = to_verilog(build(name), name=name)
    waived = re.findall(r"verilator lint_off (\w+)", text)
    assert sorted(waived) == ["CASEOVERLAP", "DECLFILENAME", "UNUSEDSIGNAL", "WIDTHEXPAND"]
    assert text.endswith("".join(f"/* verilator lint_on {warning} */\n" for warning in waived))
    assert all(f"- {warning}. " in text for warning in waived)
    path = tmp_path / "design.v"
    path.write_text(re.sub(r"/\* verilator .* \*/", "", text))
    assert set(re.findall(r"%Warning-(\w+)", verilator_lint(path, name).stderr)) <= set(waived)


def test_a_unit(tmp_path: Path) -> None:
    """No paths and no chance; its ports; few names that nothing reads: fields of payloads would be hundreds."""
    text, again = (to_verilog(build("mxu_2x2")) for _ in range(2))
    assert text == again
    assert "src =" not in text
    assert str(Path.cwd()) not in text
    header = text[text.rindex("\nmodule mxu(") :]
    ports = header[header.index("(") + 1 : header.index(")")].replace(" ", "").split(",")
    streams = itertools.product(("weights", "activations", "results"), ("valid", "ready", "payload"))
    assert sorted(ports) == sorted(["clk", "rst", *map("__".join, streams)])
    path = tmp_path / "design.v"
    path.write_text(text.replace("/* verilator lint_off UNUSEDSIGNAL */", ""))
    assert verilator_lint(path, "mxu").stderr.count("%Warning-UNUSEDSIGNAL") < 60


@pytest.mark.parametrize("name", ["stream_converter", thorough("mxu_2x2_axi")])
def test_yosys_reads_the_same_design(name: str) -> None:
    """The Verilog is Amaranth's RTLIL: each register, memory place and output is proven to get the same next."""
    component = build(name, **({"rows": 1, "columns": 1, "depth": 4} if "axi" in name else {}))
    verilog = to_verilog(component)
    assert _unproven(component, verilog) == 0
    if name == "stream_converter":
        assert _unproven(component, "= ~".join(verilog.rsplit("= ", 1))) > 0


def _unproven(component: wiring.Component, verilog: str) -> int:
    """Of how many bits it is not proven that the Verilog does what the component does."""
    gates = "proc; flatten; memory -nomap; memory_map; opt_clean; techmap; dffunmap; simplemap; opt_clean"
    top = component.module_name
    said = yosys.produce(
        f"read_rtlil /job/design.il\nhierarchy -top {top}\n{gates}\nrename {top} left\ndesign -stash left\n"
        f"read_verilog <<END\n{verilog}\nEND\nhierarchy -top {top}\n"
        # Where a register has a name and an alias without one, the name is what both sides have.
        f"rename -hide w:_*_\n{gates}\nrename {top} right\ndesign -stash right\n"
        "design -copy-from left -as left left\ndesign -copy-from right -as right right\n"
        "equiv_make left right both\nhierarchy -top both\nclean -purge\nequiv_simple\n"
        "tee -q -o /job/result equiv_status",
        to_rtlil(component),
    )
    return int(re.findall(r"are proven and (\d+) are unproven", said)[-1])


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")  # what is refused goes unused
def test_two_modules_of_one_name_are_refused() -> None:
    class Named(wiring.Component):
        module_name = "twin"

        def __init__(self, value: int, *inside: int) -> None:
            self.value, self.inside = value, inside
            super().__init__({"o": Out(8)})

        def elaborate(self, platform: object) -> Module:
            m = Module()
            m.d.comb += self.o.eq(self.value)
            for value in self.inside:
                m.submodules += repeat(platform, partial(Named, value), 1)
            return m

    assert to_rtlil(Named(0, 1, 1), name="top").count("module \\twin") == 1
    with pytest.raises(AssertionError, match="two different modules are called twin"):
        to_rtlil(Named(0, 1, 2), name="top")
    gc.collect()  # now, while the warning is ignored


@pytest.mark.parametrize("target", ["fp8_e5m2", "fp8_e4m3", "e2f1"])
def test_no_vector_has_no_bits(target: str) -> None:
    """Verilog would give [-1:0] two; Verilator refuses it."""
    assert "[-1:0]" not in to_verilog(build("converter", target=target, subnormals="ieee"))
