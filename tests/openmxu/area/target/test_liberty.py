"""Cell libraries: the NAND2 and the flip-flops are found, files of no use are refused."""

import gzip
import re
from pathlib import Path

import pytest

from openmxu.area.target.liberty import generic_library, parse_library, read_library

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


NAND = cell("GOOD", "!(A*B)")
NO_NAND = "liberty must have a 2-input NAND, the unit of area; 'test' has none"
NO_FLIP_FLOP = "liberty must have a flip-flop, a cell with an 'ff' group; 'test' has none"
NONE = "'test' must contain exactly one Liberty library"
MALFORMED = "liberty must be a well-formed Liberty file, not 'test': "
AREA = "liberty must give numbers from 0 to 1000000000 as areas, not "
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
        *((text, NONE) for text in (b"", b"module top; endmodule", b"\x00\xff" * 100, b"cells (x) { }")),
        *(  # of NANDs, and of all other cells, which are summed up
            (library(cell("N", function, area=area), NAND, FLIP_FLOP), f"{AREA}'{area}' (N in 'test')")
            for area in ("big", "inf", "nan", "-1", "1e400", "1e10")
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
    plain, packed, cut, bomb = (tmp_path / name for name in ("plain.gz", "packed.lib", "cut.lib", "bomb.lib.gz"))
    plain.write_bytes(text)
    packed.write_bytes(gzip.compress(text))
    cut.write_bytes(gzip.compress(text)[:-12])
    bomb.write_bytes(gzip.compress(bytes(100 << 20), 1))
    assert read_library(plain) == read_library(packed)
    assert read_library(packed).text == text
    monkeypatch.setattr("openmxu.area.target.liberty._MOST", 10 << 20)
    for path, error, said in (
        (bomb, ValueError, f"at most 10 MiB, unpacked; '{bomb}' is larger$"),
        (Path("/dev/zero"), ValueError, "at most 10 MiB, unpacked; '/dev/zero' is larger$"),
        (cut, ValueError, f"a whole gzip file, not '{cut}': "),
        (tmp_path / "none.lib", OSError, f"a readable file, not '{tmp_path}/none.lib': No such file"),
    ):
        with pytest.raises(error, match=f"^liberty must be {said}"):
            read_library(path)
