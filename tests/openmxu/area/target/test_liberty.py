"""Cell libraries: the NAND2 and the flip-flops are found, files of no use are refused."""

import gzip
import re
from pathlib import Path

import pytest

from openmxu.area.target.liberty import generic_library, parse_library, read_library

FLIP_FLOP = 'cell (FF) { area : 5; ff (IQ, IQN) { clocked_on : "C"; next_state : "D"; } }'


HOLDING = {"DFF": 24, "DFFR": 28, "DFFRN": 28, "DFFS": 28, "DFFSN": 28, "DFFRS": 32, "LATCH": 14, "LATCHN": 14}
"""Transistors of what holds a bit on generic gates."""


def cell(name: str, function: str, *, area: str = "1", extra: str = "", inputs: str = "AB") -> str:
    pins = "".join(f"pin ({pin}) {{ direction : input; }} " for pin in inputs)
    output = f'pin (Y) {{ direction : output; function : "{function}"; }}'
    return f"cell ({name}) {{ area : {area}; {extra} {pins} {output} }}"


def library(*cells: str) -> bytes:
    return f"library (test) {{ {' '.join(cells)} }}".encode()


def test_generic_library() -> None:
    generic = generic_library()
    assert (generic.nand2, generic.nand2_area, generic.sequential) == ("NAND2", 1.0, set(HOLDING))


def test_generic_areas_are_what_the_comments_count() -> None:
    """Areas are transistors divided by 4, so whole numbers of transistors, and pairs of p and n."""
    text = generic_library().text.decode()
    areas = {name: float(area) for name, area in re.findall(r"cell \((\w+)\) {\s*area : ([\d.]+);", text)}
    transistors = {
        "INV": 2,
        "BUF": 4,
        "NAND2": 4,
        "NAND3": 6,
        "NAND4": 8,
        "NOR2": 4,
        "NOR3": 6,
        "NOR4": 8,
        "AND2": 6,
        "OR2": 6,
        "AOI21": 6,
        "AOI22": 8,
        "OAI21": 6,
        "OAI22": 8,
        "XOR2": 10,
        "XNOR2": 10,
        "MUX2": 12,
        **HOLDING,
    }
    assert areas == {name: number / 4 for name, number in transistors.items()}


@pytest.mark.parametrize(
    "function",
    ["!(A*B)", "!(A B)", "(A&B)'", "!A + !B", "(!A) | (!B)", "A'+B'", "(A * B) ^ 1", "!(A & B & 1)", "A' B + B'"],
)
def test_nand_is_found_by_function(function: str) -> None:
    found = parse_library(library(cell("ODD", function, area="1.5"), FLIP_FLOP), "test")
    assert (found.nand2, found.nand2_area) == ("ODD", 1.5)


@pytest.mark.parametrize(
    "decoy",
    [
        cell("NAND2", "!(A+B)"),
        cell("NAND2", "A*B"),
        cell("NAND2", "A ^ B"),
        cell("NAND2", "!(A*B*C)", inputs="ABC"),
        cell("NAND2", "!(A*IQ)"),
        cell("NAND2", "!(A*"),
        cell("NAND2", "!(A*B)", extra="dont_use : true;"),
        cell("NAND2", "!(A*B)", extra='latch (IQ, IQN) { enable : "A"; }'),
        cell("NAND2", "!(A*B)", area="0"),
    ],
)
def test_what_is_no_nand(decoy: str) -> None:
    with pytest.raises(ValueError, match=r"^liberty must have a 2-input NAND, the unit of area; 'test' has none$"):
        parse_library(library(decoy, FLIP_FLOP), "test")


def test_the_smallest_nand_counts() -> None:
    nands = [cell(f"N{area}", "!(A*B)", area=area) for area in ("3", "1.25", "2")]
    assert parse_library(library(*nands, FLIP_FLOP), "test").nand2 == "N1.25"


def test_a_line_end_ends_an_attribute() -> None:
    text = library(cell("N", "!(A*B)").replace("area : 1;", "area : 1.5\n"), FLIP_FLOP)
    assert parse_library(text, "test").nand2_area == 1.5


def test_tables_comments_and_continued_lines() -> None:
    timing = 'timing () { values ("0.1, 0.2", \\\n "0.3"); related_pin : "A"; /* { */ }'
    head = "delay_model : table_lookup; define (x, cell, string);"
    text = library(head, cell("N", "!(A*B)", extra=timing), FLIP_FLOP)
    assert parse_library(text, "test").nand2 == "N"


def test_names_of_libraries_can_be_file_names() -> None:
    text = library(cell("N", "!(A*B)"), FLIP_FLOP).replace(b"(test)", b'("../odd name")')
    assert parse_library(text, "test").name == ".._odd_name"


def test_a_flip_flop_is_needed() -> None:
    latch = FLIP_FLOP.replace("ff (", "latch (")
    problem = "liberty must have a flip-flop, a cell with an 'ff' group; 'test' has none"
    with pytest.raises(ValueError, match=f"^{problem}$"):
        parse_library(library(cell("N", "!(A*B)"), latch), "test")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"library (x) {\n cell (y) {\n }", "line 3: 'library' without an end"),
        (b"library (x) { }\n }", "line 2: '}' without a group to close"),
        (b'library (x) {\n a : "b;\n}', "line 2: a string without an end"),
        (b"library (x) { { } }", "line 1: '{' without a group name before it"),
        (b"library (x) {\n /* } ", "line 2: a comment without an end"),
        (b"library (x) { }\n /*/", "line 2: a comment without an end"),
        (
            b"library (x) { } /* " + b" /*" * (1 << 20),
            "line 1: a comment without an end",
        ),  # for hours, if looked at twice
    ],
)
def test_malformed(text: bytes, problem: str) -> None:
    pattern = f"^liberty must be a well-formed Liberty file, not 'test': {re.escape(problem)}$"
    with pytest.raises(ValueError, match=pattern):
        parse_library(text, "test")


@pytest.mark.parametrize("text", [b"", b"module top; endmodule", b"\x00\xff" * 100, b"cells (x) { }"])
def test_no_library(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^'test' must contain exactly one Liberty library$"):
        parse_library(text, "test")


@pytest.mark.parametrize("area", ["big", "inf", "nan", "-1", "1e400", "1e10"])
def test_areas_are_numbers(area: str) -> None:
    """Those of NANDs, and of all other cells, which are summed up."""
    problem = rf"^liberty must give numbers from 0 to 1000000000 as areas, not '{area}' \(N in 'test'\)$"
    for function in ("!(A*B)", "A+B"):
        with pytest.raises(ValueError, match=problem):
            parse_library(library(cell("N", function, area=area), cell("GOOD", "!(A*B)"), FLIP_FLOP), "test")


def test_areas_that_are_too_small_to_divide_by() -> None:
    found = parse_library(library(cell("N", "!(A*B)", area="1e-320"), cell("GOOD", "!(A*B)"), FLIP_FLOP), "test")
    assert found.nand2 == "GOOD"


@pytest.mark.parametrize("function", ["(" * 5000 + "A" + ")" * 5000, "!" * 20000 + "A", "A" + "'" * 20000])
def test_functions_without_bounds(function: str) -> None:
    problem = r"^liberty must give functions of two inputs in at most 200 symbols, not in more \(N in 'test'\)$"
    with pytest.raises(ValueError, match=problem):
        parse_library(library(cell("N", function), FLIP_FLOP), "test")
    assert parse_library(library(cell("N", "(" * 90 + "!(A*B)" + ")" * 90), FLIP_FLOP), "test").nand2 == "N"


def test_files_without_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bomb, and a device that never ends."""
    monkeypatch.setattr("openmxu.area.target.liberty._MOST", 10 << 20)
    bomb = tmp_path / "bomb.lib.gz"
    bomb.write_bytes(gzip.compress(bytes(100 << 20), 1))
    for path in (bomb, Path("/dev/zero")):
        problem = f"^liberty must be at most 10 MiB, unpacked; '{path}' is larger$"
        with pytest.raises(ValueError, match=problem):
            read_library(path)


def test_compression_is_told_by_content(tmp_path: Path) -> None:
    text = library(cell("N", "!(A*B)"), FLIP_FLOP)
    plain, packed = tmp_path / "plain.gz", tmp_path / "packed.lib"
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    assert read_library(plain) == read_library(packed)
    assert read_library(packed).text == text


def test_broken_archive(tmp_path: Path) -> None:
    path = tmp_path / "broken.lib.gz"
    path.write_bytes(gzip.compress(library(cell("N", "!(A*B)"), FLIP_FLOP))[:-12])
    with pytest.raises(ValueError, match=r"^liberty must be a whole gzip file, not '.*broken\.lib\.gz': "):
        read_library(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"^liberty must be a readable file, not '.*none\.lib': No such file"):
        read_library(tmp_path / "none.lib")
