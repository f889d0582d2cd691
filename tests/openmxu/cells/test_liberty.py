"""Cell libraries: the NAND2 and the flip-flops are found, files of no use are refused, all tools read the same."""

import gzip
import importlib.resources
import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from openmxu import yosys
from openmxu.area.target.targets import choose_targets
from openmxu.arith import Multiplier
from openmxu.cells.liberty import Library, generic_library, parse_library, read_library
from openmxu.export.verilog import to_rtlil
from openmxu.spec.formats import BF16

GENERIC = importlib.resources.files("openmxu.cells").joinpath("generic.lib").read_text()

FLIP_FLOP = 'cell (FF) { area : 5; ff (IQ, IQN) { clocked_on : "C"; next_state : "D"; } }'


def cell(name: str, function: str, *, area: str = "1", extra: str = "", inputs: str = "AB") -> str:
    pins = "".join(f"pin ({pin}) {{ direction : input; }} " for pin in inputs)
    output = f'pin (Y) {{ direction : output; function : "{function}"; }}'
    return f"cell ({name}) {{ area : {area}; {extra} {pins} {output} }}"


def library(*cells: str, name: str = "test") -> bytes:
    return f"library ({name}) {{ {' '.join(cells)} }}".encode()


def test_generic_library() -> None:
    """Areas are transistors divided by 4, so whole numbers of transistors, and pairs of p and n."""
    gates = {2: "INV", 4: "BUF NAND2 NOR2", 6: "NAND3 NOR3 AND2 OR2 AOI21 OAI21", 8: "NAND4 NOR4 AOI22 OAI22"}
    gates |= {10: "XOR2 XNOR2", 12: "MUX2"}
    storage = {24: "DFF", 28: "DFFR DFFRN DFFS DFFSN", 32: "DFFRS", 14: "LATCH LATCHN"}
    generic = generic_library()
    assert (generic.nand2, generic.nand2_area) == ("NAND2", 1.0)
    assert generic.sequential == set(" ".join(storage.values()).split())
    areas = re.findall(r"cell \((\w+)\) {\s*area : ([\d.]+);", generic.text.decode())
    expected = {name: number / 4 for number, names in {**gates, **storage}.items() for name in names.split()}
    assert {name: float(area) for name, area in areas} == expected


@pytest.mark.parametrize(
    "function",
    [
        *("!(A*B)", "!(A B)", "(A&B)'", "!A + !B", "(!A) | (!B)", "A'+B'", "(A * B) ^ 1", "!(A & B & 1)", "A' B + B'"),
        f"{90 * '('}!(A*B){90 * ')'}",
    ],
)
def test_nand_is_found_by_function(function: str) -> None:
    found = parse_library(library(cell("ODD", function, area="1.5"), FLIP_FLOP), "test")
    assert (found.nand2, found.nand2_area) == ("ODD", 1.5)


def test_the_smallest_nand_counts() -> None:
    """But for areas that are too small to divide by."""
    nands = [cell(f"N{area}", "!(A*B)", area=area) for area in ("3", "1.25", "2", "1e-320")]
    assert parse_library(library(*nands, FLIP_FLOP), "test").nand2 == "N1.25"


def test_text() -> None:
    """A line end ends an attribute; tables, comments and continued lines; a name that a file can have."""
    timing = 'timing () { values ("0.1, 0.2", \\\n "0.3"); related_pin : "A"; /* { */ }'
    nand = cell("N", "!(A*B)", extra=timing).replace("area : 1;", "area : 1.5\n")
    text = library("delay_model : table_lookup; define (x, cell, string);", nand, FLIP_FLOP)
    found = parse_library(text.replace(b"(test)", b'("../odd name")'), "test")
    assert (found.name, found.nand2, found.nand2_area) == (".._odd_name", "N", 1.5)


def same(found: Library, wanted: Library) -> bool:
    """Whether areas, energies and each tool see the same; the texts of the files differ."""
    return (found.text, found.areas, found.nand2, found.nand2_area) == (
        *(wanted.text, wanted.areas, wanted.nand2, wanted.nand2_area),
    ) and (found.sequential, found.timed, found.doubt) == (wanted.sequential, wanted.timed, wanted.doubt)


PIECES = re.compile(r'("(?:[^"\\]|\\.)*"|/\*.*?\*/|[{}();:,])', re.DOTALL)
BETWEEN = ('/* area : 9; } " */', "//\n", "// it's 4 { \" /*\n", "\\\n", " \\\r\n", "\ufeff", "\r\n", "/**/", "/***/ ")


def strewn(text: str, seed: int, *, share: float = 1.0) -> bytes:
    """The text with comments, continued lines and byte order marks between its tokens."""
    chance = random.Random(seed)
    pieces = PIECES.split(text)
    return "".join(
        piece + (chance.choice(BETWEEN) if chance.random() < share else "") for piece in ["", *pieces]
    ).encode()


@pytest.mark.parametrize("seed", range(8))
def test_comments_between_tokens_change_nothing(seed: int) -> None:
    """In a made library (areas of 1 to 9, some flip-flops), and in our own."""
    chance = random.Random(seed)
    gates = [cell(f"N{n}", chance.choice(("!(A*B)", "A B", "A'+B")), area=f"{chance.randint(1, 9)}") for n in range(9)]
    made = library(NAND, FLIP_FLOP, *gates).decode()
    for text in (made, made.replace("; ", ";\n").replace("{ ", "{\n"), GENERIC):
        assert same(parse_library(strewn(text, seed), "test"), parse_library(text.encode(), "test"))


@pytest.mark.parametrize("path", [*filter(None, os.environ.get("OPENMXU_LIBERTY", "").split(os.pathsep))])
def test_comments_in_libraries_of_foundries_change_nothing(path: str) -> None:
    """``OPENMXU_LIBERTY`` names them."""
    wanted = read_library(Path(path))
    content = Path(path).read_bytes()
    text = (gzip.decompress(content) if path.endswith(".gz") else content).decode("utf-8")
    assert same(parse_library(strewn(text, 1, share=0.02), path), wanted)
    assert same(parse_library(wanted.text, path), wanted)


HEAD, NAND2 = "library (openmxu_generic) {", "cell (NAND2) {"
PIN_A, PIN_B = (f"    pin ({pin}) {{ direction : input; }}\n" for pin in "AB")
TRAPS: dict[str, Callable[[str], str]] = {
    "comment in a string": lambda text: text.replace(HEAD, f'{HEAD} comment : "see https://x.org/* or \\"y\\"";'),
    "brace in a string": lambda text: text.replace(HEAD, f'{HEAD} date : "}} {{ {{";'),
    "string of two lines": lambda text: text.replace(HEAD, f'{HEAD} revision : "1.0, \\\n 2";'),
    "list without a semicolon": lambda text: text.replace("    area :", "    members (x)\n    area :"),
    "no dont_use": lambda text: text.replace(NAND2, f"{NAND2} dont_use : false;"),
    "last area": lambda text: text.replace("area : 1.0;", "area : 0.1;\n    area : 1.0;"),
    "pins together": lambda text: text.replace(PIN_A + PIN_B, PIN_A.replace("(A)", "(A, B)")),
    "brace in a line of its own": lambda text: text.replace(") {", ")\n{"),
    "backslashes": lambda text: text.replace(HEAD, f'{HEAD} comment : a\\; date : "b\\\\"; revision : /\\/c \\ d;'),
    "line ends": lambda text: text.replace("\n", "\r"),
}


def test_tools_read_the_same() -> None:
    """What Yosys or ABC read in another way (630 GE became 186, 668 or 702, or an error) is written plainly."""
    wanted, text = parse_library(GENERIC.encode(), "test"), GENERIC
    for trap in TRAPS.values():
        assert trap(GENERIC) != GENERIC
        text = trap(text)
        found = parse_library(trap(GENERIC).encode(), "test")
        assert (found.nand2_area, found.areas, found.sequential) == (1.0, wanted.areas, wanted.sequential)
    design = Multiplier(BF16, BF16)
    counted = []
    for each in (wanted, parse_library(text.encode(), "test")):
        [target] = choose_targets([], [each], ["area"])
        script = target.script.format(top=design.module_name, change="")
        files = yosys.run(script, to_rtlil(design), ["stat.json"], libraries={"cells.lib": each.text})
        counted.append(target.count(json.loads(files["stat.json"])))
    assert counted[0] == counted[1]


NAND = cell("GOOD", "!(A*B)")
NO_NAND = "liberty must have a 2-input NAND, the unit of area; 'test' has none"
NO_FLIP_FLOP = "liberty must have a flip-flop, a cell with an 'ff' group; 'test' has none"
NONE = "'test' must contain exactly one Liberty library"
MALFORMED = "liberty must be a well-formed Liberty file, not 'test': "
AREA = "liberty must give numbers from 0 to 1000000000 as areas, not "
TWICE = "liberty must have cells of different names, not a second 'GOOD' ('test')"
WORD = "without ':' or a list in parentheses behind it"
LONG = "liberty must give functions of two inputs in at most 200 symbols, not in more (N in 'test')"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *(
            (library(cell("NAND2", function), FLIP_FLOP), NO_NAND)
            for function in ("!(A+B)", "A*B", "A ^ B", "!(A*IQ)", "!(A*")
        ),
        *(
            (library(cell("NAND2", "!(A*B)", extra=extra), FLIP_FLOP), NO_NAND)
            for extra in ("dont_use : true;", 'latch (IQ, IQN) { enable : "A"; }')
        ),
        (library(cell("NAND2", "!(A*B*C)", inputs="ABC"), FLIP_FLOP), NO_NAND),
        (library(cell("NAND2", "!(A*B)", area="0"), FLIP_FLOP), NO_NAND),
        (library(NAND, FLIP_FLOP.replace("ff (", "latch (")), NO_FLIP_FLOP),
        (b"library (x) {\n cell (y) {\n }", f"{MALFORMED}line 3: 'library' without an end"),
        (b"library (x) { }\n }", f"{MALFORMED}line 2: '}}' without a group to close"),
        (b'library (x) {\n a : "b;\n}', f"{MALFORMED}line 2: a string without an end"),
        (b"library (x) { { } }", f"{MALFORMED}line 1: '{{' without a group name before it"),
        (b"library (x) {\n /* } ", f"{MALFORMED}line 2: a comment without an end"),
        (b"library (x) { }\n /*/", f"{MALFORMED}line 2: a comment without an end"),
        (b"library (x) { } /* " + b" /*" * (1 << 20), f"{MALFORMED}line 1: a comment without an end"),  # looked at once
        (b"library (x) {\n area 4.0;\n}", f"{MALFORMED}line 2: 'area' {WORD}"),
        (b"library (x) {\n values (1, 2;\n}", f"{MALFORMED}line 2: 'values' {WORD}"),
        (b"library (x) {\n include_file (other.lib);\n}", f"{MALFORMED}line 2: 'include_file' {WORD}"),
        (b'library (x) {\n area : 5 dont_use : "true";\n}', f"{MALFORMED}line 2: 'area' {WORD}"),
        (b"a () {" * 40, f"{MALFORMED}line 1: more than 32 groups inside each other"),
        (b"library (x) {\n ) x;\n}", f"{MALFORMED}line 2: ')' {WORD}"),
        (b"\x00\xff" * 100, f"{MALFORMED}line 1: a character outside of strings that is not ASCII"),
        *((text, NONE) for text in (b"", b"module top; endmodule", b"cells (x) { }")),
        (library(NAND, FLIP_FLOP, NAND), TWICE),
        *(  # of NANDs, and of all other cells, which are summed up
            (library(cell("N", function, area=area), NAND, FLIP_FLOP), f"{AREA}'{area}' (N in 'test')")
            for area in ("big", "inf", "nan", "-1", "1e400", "1e10", "1_0")
            for function in ("!(A*B)", "A+B")
        ),
        *(
            (library(cell("N", function), FLIP_FLOP), LONG)
            for function in ("(" * 5000 + "A" + ")" * 5000, "!" * 20000 + "A", "A" + "'" * 20000)
        ),
    ],
    ids=lambda value: value[:60],
)
def test_no_library(text: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        parse_library(text, "test")


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compression is told by content; neither a bomb nor a device that never ends is read."""
    text = library(NAND, FLIP_FLOP)
    written = parse_library(text, "test").text
    plain, packed, cut, bomb = (tmp_path / name for name in ("plain.gz", "packed.lib", "cut.lib", "bomb.lib.gz"))
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    cut.write_bytes(gzip.compress(text)[:-12])
    bomb.write_bytes(gzip.compress(bytes(100 << 20), 1))
    assert read_library(plain) == read_library(packed)
    assert read_library(packed).text == written
    monkeypatch.setattr("openmxu.cells.liberty._MOST", 10 << 20)
    for path, error, said in (
        (bomb, ValueError, f"liberty: {bomb}: it must have at most 10,485,760 bytes, unpacked$"),
        (Path("/dev/zero"), ValueError, "liberty: /dev/zero: it must have at most 10,485,760 bytes$"),
        (cut, ValueError, f"liberty: {cut}: it must be a whole gzip file: "),
        (tmp_path / "none.lib", OSError, f"liberty must be a readable file, not '{tmp_path}/none.lib': No such file"),
    ):
        with pytest.raises(error, match=f"^{said}"):
            read_library(path)
