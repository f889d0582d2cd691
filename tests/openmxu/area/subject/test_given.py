"""Designs of a user's own: how they are read, and what is said of those that cannot be."""

import argparse
import csv
import hashlib
import html
import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from openmxu.area.subject.foreign import ForeignPoint
from openmxu.area.subject.given import Given, _first, listed, read_given
from openmxu.area.subject.peers import Ours
from openmxu.arith import SignificandProduct
from openmxu.cli.frame import main
from openmxu.commands.measure_area import add_given
from openmxu.export.verilog import to_rtlil, to_verilog

from ....conftest import Said

pytestmark = pytest.mark.usefixtures("tool", "here")

NO_WIRE = ": declare it, or is it misspelt?"
LEAF = " endmodule\nmodule leaf(input a, e, output o); assign o = a & e;"
MAC = """
module mac(input clk, input rst, input [3:0] a, b, output reg [7:0] o);
  always @(posedge clk) if (rst) o <= 0; else o <= o + a * b;
endmodule
"""


COUNTER = """`include "step.vh"
module counter #(parameter N = 2) (input clk_i, input rst_n, output reg [N-1:0] o);
  always @(posedge clk_i or negedge rst_n) if (!rst_n) o <= 0; else o <= o + `STEP + `MORE;
endmodule
"""
SQUARE = "module square(input logic [3:0] i, output logic [7:0] o); always_comb o = i * i; endmodule\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "inc").mkdir()
    for name, text in (("counter.v", COUNTER), ("inc/step.vh", "`define STEP 1\n"), ("square.sv", SQUARE)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(name: str, text: str, top: str = "it", **more: Any) -> Given:
    Path(name).write_text(text)
    return Given((Path(name),), top, **more)


def read(given: Given) -> ForeignPoint:
    given.check()
    [point], failures = read_given([given], 60, lambda line: None)
    assert failures == []
    return point


def complaint(given: Given) -> str:
    given.check()
    points, [failure] = read_given([given], 60, lambda line: None)
    assert (points, failure.count("\n")) == ([], 0)
    return failure


def measured(words: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """The results of a command on generic gates, by part; its report is in ``out``."""
    assert main(["area", *shlex.split(words), "--target", "generic", "-o", "out"]) == code
    return {run["part"]: run for run in json.loads(Path("out/area.json").read_text())["results"]}


def test_an_export_of_ours_is_ours() -> None:
    """No other way in: the same RTLIL as of our part beside designs of others."""
    ours = Ours("product", (("width", 3),))
    point = read(written("product.v", to_verilog(ours.component), ours.name, label="mine"))
    assert (point.name, point.sha256) == ("mine", ours.read(60).sha256)


def test_includes_macros_parameters_and_the_clock() -> None:
    """The clock is found, whatever it is called, and called clk from then on."""
    counter = Given((Path("counter.v"),), "counter", (Path("inc"),))
    point = read(replace(counter, defines=(("MORE", "2"),), parameters=(("N", "5"),)))
    assert (point.name, point.is_clocked) == ("counter", True)
    assert "\\clk_i" not in point.rtlil()
    assert re.search(r"wire width 5 output \d+ \\o\n", point.rtlil())
    assert complaint(counter).startswith("counter: ")


def test_file_list(here: Path) -> None:
    Path("lists").mkdir()
    Path("lists/all.f").write_text("// ours\n+incdir+../inc +define+MORE=3\n../counter.v # the counter\n\n")
    files, include, defines = listed(Path("lists/all.f"))
    assert [path.resolve() for path in (*files, *include)] == [here / "counter.v", here / "inc"]
    assert (len(files), defines) == (1, [("MORE", "3")])
    assert read(Given(tuple(files), "counter", tuple(include), tuple(defines))).is_clocked


@pytest.mark.skipif(shutil.which("ghdl") is None, reason="ghdl is not installed")
def test_vhdl() -> None:
    """It is made Verilog, with generics; letters are alike, small or large."""
    text = """library ieee; use ieee.std_logic_1164.all;
        entity Twice is generic (N : integer := 2); port (clk : in std_logic; i : in std_logic_vector(N-1 downto 0);
        o : out std_logic_vector(N-1 downto 0)); end; architecture r of Twice is begin
        process (clk) begin if rising_edge(clk) then o <= i; end if; end process; end;"""
    point = read(written("twice.vhd", text, "TWICE", parameters=(("N", "6"),)))
    assert point.is_clocked
    assert re.search(r"wire width 6 output \d+ \\o\n", point.rtlil())
    assert complaint(written("twice.vhd", "entity oops is\n", "oops")).startswith("oops: ghdl: ")


def test_vhdl_without_ghdl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)
    said = complaint(written("a.vhd", "", "a"))
    assert said.startswith("a: VHDL is read by ghdl, which is not installed (Debian")


def test_amaranth() -> None:
    """Arguments are literals; the content names the module; what the class raises is one line."""
    point = read(Given(amaranth="openmxu.arith:SignificandProduct(3)", label="rows"))
    text = to_rtlil(SignificandProduct(3), name="openmxu_design")
    text = text.replace("openmxu_design", f"design_{hashlib.sha256(text.encode()).hexdigest()[:12]}")
    assert (point.name, point.sha256) == ("rows", hashlib.sha256(text.encode()).hexdigest())
    assert complaint(Given(amaranth="openmxu.arith:Nothing")) == (
        "openmxu.arith:Nothing: AttributeError: module 'openmxu.arith' has no attribute 'Nothing'"
    )
    assert "ValueError: " in complaint(Given(amaranth="openmxu.arith:SignificandProduct(-1)"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a, output o);\nassign o = a +;\n", "{file}:3: ERROR: syntax error, unexpected ';'"),
        ("a, output o); gone g(a, o);", "ERROR: Module `\\gone' referenced in module"),
        (
            "c, d, a, output reg o, p); always @(posedge c) o <= a; always @(posedge d) p <= a;",
            "it has several clocks (c, d); --clock names the one that delays refer to (it.v)",
        ),
        (
            "c, e, a, output reg o); wire g = c & e; always @(posedge g) o <= a;",
            "its clock g is made inside; --clock names the input that delays refer to",
        ),
        ("c, output a); wire b;\nassign a = b ^ c;\nassign b = a & c;", "it has a combinational loop: b at {file}:2"),
        ("a, b, output o); assign o = ~a; assign o = ~b;", "it drives a wire twice: o"),
        (
            "[7:0] act, weight, output [7:0] o);\nassign o = act *\n wieght;\n",
            "{file}:4: it declares no wire wieght" + NO_WIRE,
        ),
        (
            "a, output o);\nleaf b(.a(a), .o(midle));\nleaf c(.a(middle), .o(o));\n" + LEAF,
            "{file}:3: it declares no wire midle" + NO_WIRE,
        ),
        ("a,\n output op,\n output p); assign op = ~a;", "nothing drives p at {file}:4"),
        ("a, output [1:0] o);\nwire [1:0] b;\nassign b[0] = a;\nassign o = ~b;\n", "nothing drives b at {file}:3"),
        ("a, output o);\nleaf inside(.a(a), .o(o));" + LEAF, "nothing drives inside.e at {file}:4"),
        *(
            (text, "it has no gate and no register at {file}:2")
            for text in (
                "a, output o); assign o = a;",
                "c, a, output o); reg b; always @(posedge c) b <= a; assign o = b & 1'b0;",
                "logic a, output logic o); assign o = a;",
            )
        ),
        ("e, d, output o); assign o = e ? d : 1'bz;", "it drives z, and there are no"),
        (
            "logic [7:0] act, weight, output logic [7:0] o);\nassign o = act * wieght;",
            "{file}:3: ERROR: use of undeclared identifier 'wieght'; did you mean 'weight'?",
        ),
        ("logic a,\n output logic o, p); assign o = ~a;", "nothing drives p at {file}:3"),
        ("logic a,\n output logic o, logic [3:0] p);\nassign o = ~a; assign p[1] = o;", "nothing drives p at {file}:3"),
        (
            "a, output o); invert b(o, a); endmodule\n"
            "primitive invert(o, a); output o; input a; table 0 : 1; 1 : 0; endtable endprimitive module more;",
            "{file} defines the primitive invert, which Yosys does not read: make it a module",
        ),
        (  # of thirty
            "".join(["logic a);\n", *(f"  assign a = b{n};\n" for n in range(30))]),
            "{file}:3: ERROR: use of undeclared identifier 'b0'",
        ),
    ],
)
def test_what_cannot_be_read(text: str, expected: str, here: Path) -> None:
    """The first thing that the tool complains of, with the user's path, and nothing else; logic is SystemVerilog."""
    file = here / ("it.sv" if "logic " in text else "it.v")
    given = written(file.name, f"\nmodule it(input {text} endmodule\n")
    assert complaint(given).startswith("it: " + expected.format(file=file))


def test_a_byte_order_mark(here: Path) -> None:
    """Yosys's own reader takes none; slang does."""
    text = "\ufeffmodule it(input a, output o); assign o = ~a; endmodule\n"
    mark = f"it: {here / 'it.v'} begins with a byte order mark: save it as UTF-8 without one"
    assert complaint(written("it.v", text)) == mark
    assert not read(written("it.sv", text)).is_clocked


def test_what_is_driven_and_not_in_vain() -> None:
    """An output that a register drives, a constant beside a gate, an output that nobody reads, bits without a use."""
    verilog = """
        module leaf(input a, output o, p); assign o = ~a; assign p = a; endmodule
        module it(input c, a, output reg o, output p, q); reg k = 1; leaf inside(.a(a), .o(q), .p());
        assign p = k; always @(posedge c) o <= a; endmodule
    """
    systemverilog = """
        module it(input logic c, a, output logic o); logic [3:0] b; assign b[3] = a;
        always_ff @(posedge c) o <= ~b[3]; endmodule
    """
    assert read(written("it.v", verilog)).is_clocked
    assert read(written("it.sv", systemverilog)).is_clocked


def test_a_design_that_is_too_deep_for_yosys() -> None:
    """The call stack that its WebAssembly leaves is nobody's concern."""
    said = "Yosys: exit code 1\n 17: 0x5d01 - yosys.wasm!sort(int)\nCaused by:\n  wasm trap: call stack exhausted"
    assert _first(said, Path()) == "Yosys stopped (call stack exhausted): the design is too large or too deep for it"


OUR_PRODUCT = "--width 1 --part product"


def test_a_small_design_of_somebody_else() -> None:
    """Its area, as when it was written down, whichever language it was written in; ours beside it in one table."""
    Path("mac.v").write_text(MAC)
    Path("mac.sv").write_text(MAC.replace("input clk", "input logic clk").replace("always @", "always_ff @"))
    designs = "--verilog mac.v --top mac --label theirs --verilog mac.sv --top mac --label 'theirs, by slang'"
    runs = measured(f"{designs} {OUR_PRODUCT}")
    assert (runs["theirs"]["area"], runs["theirs"]["flip_flops"]) == (191.0, 8)
    assert runs["theirs, by slang"]["area"] == pytest.approx(runs["theirs"]["area"], rel=0.03)
    assert "significand product" in runs


def test_the_report_opens_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Its area, and what that is to ours, by the same recipe; then nothing without content."""
    Path("mac.v").write_text(MAC.replace("posedge clk)", "posedge clk, posedge rst)"))
    loads = "module loads(input c, l, a, b, output reg o); always @(posedge c, posedge l) if (l) o <= b; else o <= a;\n"
    Path("loads.v").write_text(loads + "endmodule\n")
    runs = measured(f"--verilog mac.v --top mac --verilog loads.v --top loads {OUR_PRODUCT}", code=1)
    mac, ours = runs["mac"]["area"], runs["significand product"]["area"]
    assert runs["mac"]["cells"]["DFFR"] == 8
    text = Path("out/report.md").read_text()
    problem = "cells that cannot be counted on this target: $_ALDFF_PP_ (flip-flop with asynchronous load)"
    failed = "failed: " + problem.replace("_ALDFF_PP_", r"\_ALDFF_PP\_").replace("$", r"\$")
    assert text.startswith(
        "# Area of mac, loads, beside ours\n\n## Your design beside ours\n\n"
        "| target | design | area | flip-flops | area, mac / this | area, loads / this |\n"
        "| --- | --- | ---: | ---: | ---: | ---: |\n"
        f"| generic | mac | {mac:,.0f} GE | 8 | 1.00 |  |\n"
        f"| generic | loads | {failed} |  |  |  |\n"
        f"| generic | significand product 2 x 2 | {ours:,.0f} GE | 0 | {mac / ours:.2f} |  |"
    )
    headings = ["Areas", "Depth and delay", "What was measured", "To cite", "What failed", "Scripts"]
    assert re.findall("^## (.*)$", text, re.MULTILINE)[1:] == headings
    assert "](" not in text  # no plot
    said = capsys.readouterr().out
    assert said.index("Your design beside ours (measured)") < said.index("mac ") < said.index(problem)


@pytest.mark.slow
def test_names_are_nothing_but_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither HTML or markup in a report, nor a formula in a table, nor colours on a terminal."""
    labels = ("<script>alert(1)</script>", "=1+1", "@x", "__x__ [/red]", "[red]")
    measured(" ".join(f"--verilog square.sv --top square --label='{label}'" for label in labels) + f" {OUR_PRODUCT}")
    for name in ("report.md", "summary.md"):
        page = MarkdownIt("commonmark", {"html": True}).enable("table").render(Path("out", name).read_text())
        assert not {"<script>", "<strong>", "<em>"} & set(re.findall("<.*?>", page))
        for label in labels:
            assert f"<td>{html.escape(label, quote=False)}</td>" in page
    names = [row["name"] for row in csv.DictReader(Path("out/area.csv").read_text().splitlines())]
    assert names[:5] == ["<script>alert(1)</script>", "'=1+1", "'@x", "__x__ [/red]", "[red]"]
    said = capsys.readouterr().out
    assert all(f" {label} " in said for label in labels)


IT = "--verilog counter.v --top it"


def test_clocks() -> None:
    """Of several the one that is named; and no other than an input."""
    text = "module it(input c, input d, a, output reg o, p); wire inner = d;\nalways @(posedge c) o <= a;\n"
    given = written("it.v", text + "always @(posedge d) p <= a; endmodule\n")
    rtlil = read(replace(given, clock="d")).rtlil()
    assert {"\\c", "\\clk", "\\d"} & set(rtlil.split()) == {"\\c", "\\clk"}
    for wanted in ("o", "inner", "x"):
        said = f"it: --clock must be an input of it (c, d, a), not '{wanted}' (it.v)"
        assert complaint(replace(given, clock=wanted)) == said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--verilog no.v --top it", "--verilog must be files, and 'no.v' is none"),
        ("--verilog counter.v", "--top must be the name of a module, not ''"),
        ("--verilog counter.v --top 'a b'", "--top must be the name of a module, not 'a b'"),
        (f"{IT} --include no", "--include must be folders, and 'no' is none"),
        (f"{IT} --reader x", "--reader must be auto, verilog or slang, not 'x'"),
        (f"{IT} --param N=';'", "--param must be NAME=VALUE, the value as in 8"),
        (f"{IT} --define =1", "--define must be NAME=VALUE, the value as in"),
        (f"{IT} --label 'a|b'", "label must be 1 to 100 printable characters without | and `"),
        (f"{IT} --label '\x1b[31m'", "printable characters without | and `"),
        (f"{IT} --label adder", "no part of ours, not 'adder'"),
        ("--verilog counter.v a.vhd --top it", "--verilog must be files, and 'a.vhd' is none"),
        ("--verilog counter.v b.vhd --top it", "--verilog must be files of one language"),
        ("--filelist no.f --top it", "--filelist must be a text, and 'no.f' is none"),
        ("--filelist bad.f --top it", "--filelist must have paths, +incdir+ and +define+; bad.f, line 1 has '-v'\n"),
        ("--top it", "argument --top: must come after --verilog, --filelist or --amaranth"),
        ('--amaranth "math:pow(open())"', "--amaranth must be package.module:Class(arguments), the arguments literals"),
        ("--amaranth Class", "--amaranth must be package.module:Class(arguments), the arguments literals, not 'Cl"),
        (f"{IT} --verilog square.sv --top it", "--label must tell designs apart, and two are called 'it'"),
        (f"{IT} --label 'adder fp32'", "--label must tell your designs from ours, not 'adder fp32'"),
        (f"--peers . {IT}", "--peers describes designs in its folder"),
    ],
)
def test_bad_arguments(arguments: str, expected: str, here: Path, refused: Said) -> None:
    (here / "b.vhd").write_text("")
    (here / "bad.f").write_text("-v lib.v\n")
    assert expected in refused(*shlex.split(arguments))


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.v").write_text("module bad(\n")
    designs = "--verilog square.sv --top square --verilog bad.v --top bad"
    ours = "--amaranth 'openmxu.arith:SignificandProduct(4)' --label 'ours, by hand' --width 3 --part product"
    runs = measured(f"{designs} {ours}", code=2)
    said = capsys.readouterr().err
    assert re.search(r"^not measured: bad: .*/bad.v:1: ERROR: syntax error", said, re.MULTILINE)
    assert set(runs) == {"square", "ours, by hand", "significand product"}
    # Four fraction bits and the hidden one are four bits wide in both: the same module has the same area.
    assert runs["ours, by hand"]["area"] == runs["significand product"]["area"]
    assert "The function of your design" in Path("out/report.md").read_text()


def test_a_design_of_nothing_but_a_memory() -> None:
    """No cell has an area; what its bits take is not in it."""
    Path("it.v").write_text(
        "module it(input clk, e, input [3:0] a, d, output reg [3:0] o); reg [3:0] m[15:0];\n"
        "always @(posedge clk) begin if (e) m[a] <= d; o <= m[a]; end endmodule\n"
    )
    run = measured(f"--verilog it.v --top it {OUR_PRODUCT}")["it"]
    assert (run["area"], run["memory_bits"]) == (0, 64)


def test_options_belong_to_designs() -> None:
    """Each beginning begins a new one; what follows is of it alone."""
    parser = argparse.ArgumentParser()
    add_given(parser, "designs", "words")
    words = "--verilog a.v b.v --top t --param N=1 --param M=2 --verilog c.v --filelist l.f --top u --filelist m.f"
    assert parser.parse_args(words.split()).designs == [
        {"verilog": [Path("a.v"), Path("b.v")], "top": "t", "param": ["N=1", "M=2"]},
        {"verilog": [Path("c.v")], "filelist": Path("l.f"), "top": "u"},
        {"filelist": Path("m.f")},
    ]
    assert parser.parse_args([]).designs == []


def test_a_layouts_design_keeps_the_names_of_its_top_and_clock() -> None:
    design = Given((Path("counter.v"),), "counter", include=(Path("inc"),), defines=(("MORE", "1"),))
    for given, top in (
        (design, "counter"),
        (Given(amaranth="openmxu.arith:SignificandProduct(4)"), "SignificandProduct"),
    ):
        [point], failures = read_given([given], 60, lambda line: None, named=True)
        assert (point.top, failures) == (top, [])
        assert f"module \\{top}\n" in point.rtlil()
        assert ("\\clk_i" in point.rtlil()) == (given is design)
