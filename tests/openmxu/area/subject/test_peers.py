"""Designs of others beside ours: small ones, written here, whose areas can be counted by hand."""

import gc
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openmxu import yosys
from openmxu.area.chapters.peer_tables import to_markdown
from openmxu.area.finding.comparison import ComparedDesign, ComparedTarget, Comparison, Figures, compare_peers
from openmxu.area.subject.foreign import Foreign, ForeignPoint
from openmxu.area.subject.peers import Ours, read_peers
from openmxu.pages.tables import reason

from ....conftest import Command, Said

pytestmark = pytest.mark.usefixtures("tool")

PRODUCT = 'design = "product", width = 2'


def described(name: str, file: str = "nand.v", top: str = "nand_gate", against: str = PRODUCT) -> str:
    return f"""
[[peer]]
name = "{name}"
url = "https://example.org/nand"
licence = "MIT"
version = "1"
notes = "a | b, inverted"
files = ["{file}"]
top = "{top}"
against = {{ {against} }}
"""


NAND = described("nand")
SOURCE = "module nand_gate(input a, input b, output o); assign o = ~(a & b); endmodule\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    where = tmp_path / "theirs"
    where.mkdir()
    (where / "peers.toml").write_text(NAND)
    (where / "nand.v").write_text(SOURCE)
    return where


def read(folder: Path, source: str, name: str = "it.v", **fields: Any) -> ForeignPoint:
    (folder / name).write_text(source)
    return Foreign("it", folder, (name,), **{"top": "it", **fields}).read(60.0)


@pytest.mark.slow
def test_an_export_of_ours_has_the_area_of_ours(folder: Path, tmp_path: Path, shown: Said) -> None:
    """Nothing favours us: what comes from a file of somebody else is measured as our own part is, to the last digit."""
    text = ""
    parts = {"adder": ("adder", "e4f3", "adder_e4f3_flush_s0"), "element": ("pe", "e3f1", "pe_e3f1_flush_s1")}
    for theirs, (part, operand, top) in parts.items():
        shown(f"verilog {part} --operand {operand} -o theirs/{part}.v")
        text += described(theirs, f"{part}.v", top, f'design = "{part}", operand = "{operand}"')
    (folder / "peers.toml").write_text(text)
    text = shown("area --peers theirs -o out --target generic --target ice40 --recipe area --recipe default")
    found = Comparison.of_json((tmp_path / "out" / "peers.json").read_text())
    assert [target.label for target in found.targets] == ["generic", "generic (default)", "ice40"]
    for theirs, (_, _, ours) in parts.items():
        for target in found.targets:
            own, other = found.find(ours, target.label), found.find(theirs, target.label)
            assert (own.combinational or 0) > 50
            assert replace(own, design=theirs) == other
    assert all(words in text for words in ("| adder | ", " | 1.00 | "))


@pytest.mark.slow
def test_areas_counted_by_hand(folder: Path, tmp_path: Path) -> None:
    (folder / "peers.toml").write_text(NAND + described("registered", top="registered"))
    registered = "module registered(input clk, a, b, output reg o); wire n; nand_gate inside(a, b, n);\n"
    (folder / "nand.v").write_text(SOURCE + registered + "always @(posedge clk) o <= n; endmodule\n")
    found = compare_peers(folder, tmp_path / "out", to_markdown)
    assert found.failed == []
    ours = "significand_product_2"
    assert [(each.name, each.against) for each in found.designs] == [(ours, ""), ("nand", ours), ("registered", ours)]
    areas = {each.design: (each.combinational, each.sequential, each.flip_flops, each.depth) for each in found.figures}
    assert (areas["nand"], areas["registered"]) == ((1.0, 0.0, 0, 1), (1.0, 6.0, 1, 1))
    assert Comparison.of_json(found.to_json()) == found
    assert (tmp_path / "out" / "peers.md").read_text() == to_markdown(found)
    assert str(tmp_path) not in found.to_json()
    text = to_markdown(found)
    assert "| nand | https://example.org/nand | 1 | MIT | a \\| b, inverted |" in text
    assert f"| nand | 1 | {1 / (areas[ours][0] or 0):.2f} | 0 | 1 |" in text


@pytest.mark.slow
def test_what_yosys_cannot_read_is_a_row(folder: Path, tmp_path: Path, command: Command) -> None:
    """An unknown top, a mistake in the text, a module without content, a cell of no target: all others are measured."""
    stub = "(* blackbox *) module stub(input a, output o); endmodule\n"
    texts = {
        "bad": "module bad(input a; endmodule\n",
        "stub": stub + SOURCE.replace("assign o = ~(a & b);", "stub inside(a, o);"),
        "load": "module nand_gate(input a, b, c, d, output reg o);\n"
        "always @(posedge c, posedge d) if (d) o <= b; else o <= a; endmodule\n",
    }
    for name, text in texts.items():
        (folder / f"{name}.v").write_text(text)
    others = "".join(described(name, f"{name}.v") for name in texts)
    (folder / "peers.toml").write_text(NAND + described("elsewhere", top="no_gate") + others)
    code, text, _ = command("area --peers theirs -o out")
    assert code == 1
    for line in (
        *("| elsewhere | not read |", "- elsewhere: ERROR: Module `no_gate' not found!\n", "| load | failed |"),
        "- bad: /sources/bad.v:1: ERROR: syntax error, unexpected",
        "- stub: ERROR: Module `\\stub' referenced in module `\\nand_gate' in cell",
        "- load on generic: cells that cannot be counted on this target: $_ALDFF_PP_ (flip-flop with asy",
    ):
        assert line in text
    found = json.loads((tmp_path / "out" / "peers.json").read_text())
    assert [each["design"] for each in found["figures"] if each["combinational"]] == ["significand_product_2", "nand"]


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")  # a part of ours that is refused goes unused
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('["nand.v"]', '["missing.v"]', "peer 'nand': files must be there, below '{folder}', not 'missing.v'"),
        ('["nand.v"]', '["*.sv"]', "peer 'nand': files must be there, below '{folder}', not '*.sv'"),
        ('["nand.v"]', "[]", "files must be a list of paths or patterns below the folder, of letters, digits and "),
        ('["nand.v"]', '["../nand.v"]', "_.+-/*?[], not ['../nand.v']"),
        ('["nand.v"]', '["a;b.v"]', "_.+-/*?[], not ['a;b.v']"),
        ('"nand_gate"', '"nand gate"', "top must be the name of a module, not 'nand gate'"),
        ('top = "nand_gate"', "", "top must be the name of a module, and is missing"),
        ('"MIT"', "7", "licence must be a text, not 7"),
        ('"MIT"', r'"\u001b[2J"', r"licence must be a text, not '\x1b[2J'"),
        ('"1"', '"1"\nreader = "vhdl"', "reader must be one of verilog, slang, not 'vhdl'"),
        ('"1"', '"1"\nreader = ["slang"]', "reader must be one of verilog, slang, not ['slang']"),
        ('"1"', '"1"\ninclude = ["no"]', "include must be there, below '{folder}', not 'no'"),
        ('"1"', '"1"\nclock = "-"', "clock must be the name of a port, not '-'"),
        ('"1"', '"1"\nparameters = { W = "2; shell" }', "parameters must be a table of numbers below 2**31 or const"),
        ('"1"', '"1"\nparameters = { W = true }', "constants as in \"8'hff\", not {'W': True}"),
        ('"1"', '"1"\ndefines = { "A B" = 1 }', "defines must be a table of macros with numbers or words, not {'A B"),
        ('"1"', '"1"\ncolour = "red"', "a field must be one of name, url, licence, version, notes, files, include, ag"),
        ("{ design", "{ desing", "against must be a table as in { design = "),
        ('"product"', '"sum"', "design must be one of product, multiplier, adder, multiply_add, "),
        ("width = 2", "width = 0", "width must be an integer from 1 to 1024, not 0"),
        ("width = 2", "height = 2", "product has no parameter 'height'; it has width"),
        ('name = "nand"', 'name = "significand_product_2"', "name must differ from that of our part, not 'sig"),
        ('name = "nand"', 'name = ""', "name must be a text, not ''"),
        ("[[peer]]", "[peer]", "must hold tables [[peer]] and nothing else, not peer"),
        ("[[peer]]", "[[peers]]", "must hold tables [[peer]] and nothing else, not peers"),
        (NAND, "", "must hold tables [[peer]] and nothing else, not nothing"),
        (NAND, "peer = [1]", "a peer: name must be a text, and is missing"),
        (NAND, NAND + NAND, "name must be given once, not a second time: 'nand'"),
        ("[[peer]]", "[[peer", "peers.toml: "),
        (NAND, "#" * (1 << 20) + "#", "must have at most 1,048,576 bytes"),
        (NAND, "\xff", "must be text in UTF-8\n"),
    ],
)
def test_a_malformed_description(old: str, new: str, message: str, folder: Path, refused: Said) -> None:
    (folder / "peers.toml").write_text(NAND.replace(old, new), encoding="latin-1")
    said = refused("--peers", folder)
    assert said.startswith(f"openmxu area: {folder / 'peers.toml'}: ")
    assert message.replace("{folder}", str(folder)) in said
    gc.collect()  # now, while the warning is ignored


def test_no_description_and_options_of_other_reports(folder: Path, tmp_path: Path, refused: Said) -> None:
    wanted = f"openmxu area: peers must be a folder with a file peers.toml, not {str(tmp_path)!r}: "
    assert refused("--peers", tmp_path) == f"{wanted}No such file or directory\n"
    for name in ("format", "part", "width", "subnormals", "compare", "explain"):
        said = refused("--peers", folder, f"--{name}", "x")
        assert f"--{name} applies only to reports of our own designs, not to --peers\n" in said


def test_files(folder: Path, tmp_path: Path) -> None:
    """Patterns come in order and once; Yosys would not see what a link out of the folder leads to."""
    for name in ("z.v", "a.v"):
        (folder / name).write_text("")
    (folder / "peers.toml").write_text(NAND.replace('["nand.v"]', '["z.v", "*.v"]\ninclude = ["."]'))
    assert read_peers(folder)[0].design.files == ("z.v", "a.v", "nand.v")
    (folder / "o o.v").write_text("")
    with pytest.raises(ValueError, match=r"files must have names of letters, digits and _\.\+-/, not 'o o\.v'"):
        read_peers(folder)
    (folder / "nand.v").rename(tmp_path / "secret.v")
    (folder / "nand.v").symlink_to(tmp_path / "secret.v")
    (folder / "peers.toml").write_text(NAND)
    with pytest.raises(ValueError, match=r"files must be there, below .*, not 'nand\.v'"):
        read_peers(folder)


@pytest.mark.parametrize("reader", ["verilog", "slang"])
def test_parameters_macros_and_included_files(reader: str, folder: Path) -> None:
    """As many flip-flops as they say."""
    (folder / "deep").mkdir()
    (folder / "deep" / "width.vh").write_text("localparam W = N * `M;\n")
    text = (
        "module it #(parameter N = 1) (input logic ck, input logic [15:0] d, output logic [15:0] q);\n"
        '`include "width.vh"\n'
        "`ifdef ON\n  always_ff @(posedge ck) q[W-1:0] <= d[W-1:0];\n`endif\nendmodule\n"
    )
    options = {"include": ("deep",), "defines": {"M": 2, "ON": ""}, "parameters": {"N": "4'd3"}}
    point = read(folder, text, "it.sv", clock="ck", reader=reader, **options)
    assert (point.name, point.is_clocked) == ("it", True)
    script = "read_rtlil /job/design.il\nproc\nflatten\nopt\ntee -q -o /job/result stat -width\n"
    assert "$dff_6" in yosys.produce(script, point.rtlil())


def test_a_clock_that_is_not_there(folder: Path) -> None:
    text = "module it(input a, output o); assign o = a; endmodule"
    assert not read(folder, text).is_clocked
    with pytest.raises(yosys.SynthesisError, match="Object `ck' not found"):
        read(folder, text, clock="ck")


def test_no_author_asks_more_of_synthesis_than_others(folder: Path) -> None:
    """Hierarchy and logic are kept for nobody; assertions and messages cost nobody anything."""
    plain = "module inner(input a, output o); assign o = ~a; endmodule\nmodule it(input a, output o);\n  wire w;\n"
    plain += "  inner x(a, w);\n  inner y(w, o);\nENDendmodule\n"
    asking = plain.replace("module inner", "(* keep_hierarchy *) module inner").replace("wire w", "(* keep *) wire w")
    asked = asking.replace("END", "  always @* begin assert (a == o); $display(a); end\n")
    texts = [read(folder, text, "it.sv").rtlil() for text in (plain.replace("END", ""), asked)]
    assert all("keep" not in text for text in texts)
    script = "read_rtlil /job/design.il\nproc\nflatten\nopt -full\nopt_clean -purge\ntee -q -o /job/result stat\n"
    one, other = (yosys.produce(script, text).split("===")[-1] for text in texts)
    assert one == other


def test_where_a_design_is_from_is_none_of_it(folder: Path) -> None:
    """The name of its file, and of its top module, are not what its area depends on."""
    text = "module NAME(input [3:0] a, b, output [3:0] o); assign o = a + b; endmodule\n"
    (folder / "deep").mkdir()
    one = read(folder, text.replace("NAME", "it"))
    other = read(folder, text.replace("NAME", "other"), "deep/x.v", top="other")
    third = read(folder, text.replace("NAME", "it").replace("+", "-"))
    assert one.rtlil() == other.rtlil()
    assert one.top == other.top != third.top


def test_ours_is_read_as_theirs() -> None:
    point = Ours("multiply_add", (("operand", "e3f1"), ("result", "e3f3"))).read(60.0)
    assert point.name == "multiply_add_e3f1_e3f3_flush_s0"
    assert not point.is_clocked
    assert point.rtlil("area") == point.rtlil() != point.rtlil("speed")
    assert f"module \\{point.top}\n" in point.rtlil("speed")


def test_each_design_with_its_best_recipe() -> None:
    """A recipe that was chosen for ours may not suit others."""
    about = ("GE", "OpenSTA 1", "0123", 2.0)
    targets = ComparedTarget("lib", "lib", "area", *about), ComparedTarget("lib", "lib (speed)", "speed", *about)
    figures = (
        *(Figures("o", "lib", 10.0, delay=4.0), Figures("o", "lib (speed)", 12.0, delay=2.0)),
        *(Figures("t", "lib", 30.0, delay=3.0), Figures("t", "lib (speed)", 20.0), Figures("f", "lib", error="no")),
    )
    designs = (ComparedDesign("o"), ComparedDesign("t", "o"), ComparedDesign("f", "o"), ComparedDesign("u", "o"))
    found = Comparison({"Yosys": "Yosys 1", "OpenMXU": "1"}, targets, designs, figures)
    for line in (
        "### lib, each design with its best recipe\n",
        "| **o**, ours | 10 | 20 | area |  | 2.00 | speed |  |\n",
        "| t | 20 | 40 | speed | 2.00 | 3.00 | area | 1.50 |\n",
        *("| f |  |  |  |  |  |  |  |\n", "| f | failed |", "| u | not read |"),
    ):
        assert line in to_markdown(found)
    assert "best recipe" not in to_markdown(replace(found, targets=targets[:1]))


def test_reason() -> None:
    errors = ("Yosys: exit code 1\nx.v:1: ERROR: no\n", "Yosys: no result within 1 s\nlast words\n", "")
    assert [*map(reason, errors)] == ["x.v:1: ERROR: no", "last words", ""]
