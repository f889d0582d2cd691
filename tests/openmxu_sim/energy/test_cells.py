"""Delays and energies as a Liberty text says them, followed by hand."""

import pytest

from openmxu.area.target.liberty import Library, parse_library
from openmxu_sim.energy.cells import Cells, NoPowerError, Table, read_cells, truth

from .library import GATES, HEAD, flip_flop, gate, library


def read(content: bytes) -> Cells:
    return read_cells(parse_library(content, "test"))


def test_tables() -> None:
    """Linear between values, and beyond them; one value is that everywhere."""
    table = Table((1.0, 3.0), (0.0, 1.0, 2.0), ((0.0, 10.0, 30.0), (4.0, 14.0, 34.0)))
    assert table(1.0, 0.5) == 5.0
    assert table(2.0, 1.5) == 22.0
    assert table(0.0, 3.0) == 48.0
    assert table(4.0, 0.0) == 6.0
    assert Table((0.0,), (0.0, 1.0), ((1.0, 2.0),))(99.0, 0.25) == 1.25
    assert Table((0.0,), (0.0,), ((7.0,),))(5.0, 5.0) == 7.0


def test_a_gate() -> None:
    """Templates that name the load first are read as those that name it second."""
    cells = read(library())
    assert (cells.supply, cells.unit, cells.picofarads, cells.nanoseconds) == (2.0, 1.0, 1.0, 1.0)
    nand = cells.cells["NAND2"]
    assert [pin.name for pin in nand.inputs] == ["A", "B"]
    assert nand.inputs[0].capacitances == (0.01, 0.01)
    [output] = nand.outputs
    assert output.function == "!(A B)"
    first = output.arcs[0]
    assert (first.pin, set(first.edges)) == ("A", {(0, 1), (1, 0)})
    assert [delay and delay(0.3, 0.02) for delay in first.delays] == pytest.approx([0.15, 0.3])
    rise = output.powers[1].energies[1]
    assert (rise and rise(0.7, 0.3)) == pytest.approx(0.003)
    assert set(cells.cells["XOR2"].outputs[0].arcs[0].edges) == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_units() -> None:
    """Picoseconds, femtofarads and millivolts are what they say."""
    head = HEAD
    units = {"1ns": "10ps", "1V": "1mV", "(1, pf)": "(2, ff)", "nom_voltage : 2.0": "nom_voltage : 2000"}
    for old, new in units.items():
        assert old in head
        head = head.replace(old, new)
    cells = read(library(head=head))
    found = cells.supply, cells.picofarads, cells.nanoseconds, cells.unit
    assert found == pytest.approx((2.0, 0.002, 0.01, 0.002e-6), abs=0)


def test_a_flip_flop() -> None:
    stored = read(library()).cells["DFF"]
    assert (stored.clock, stored.next_state, stored.stored) == ("C", "D", ("IQ", "IQN"))
    assert stored.outputs[0].arcs[0].edges == ((1, 0), (1, 1))
    assert [power.when for power in stored.inputs[0].powers] == ["", "(D * !Q) + (!D * Q)"]


LATCHES = 'ff(IQ, IQN) { clocked_on : "C"; next_state', 'latch(IQ, IQN) { enable : "C"; data_in'


@pytest.mark.parametrize(
    ("more", "name", "why"),
    [
        (flip_flop("LATCH").replace(*LATCHES), "LATCH", "it is a latch, or stores in another way than a flip-flop"),
        (gate("BUFZ", 3, "AE", "A").replace("function :", 'three_state : "!E"; function :'), "BUFZ", "it drives z"),
        (gate("AND7", 4, "ABCDEFG", "A B C D E F G"), "AND7", "it has more than 6 inputs"),
        (flip_flop("FALL").replace('"C"; next', '"!C"; next'), "FALL", "its clock is not the rising edge of a pin"),
    ],
)
def test_what_cannot_be_simulated(more: str, name: str, why: str) -> None:
    assert read(library(GATES + flip_flop() + more)).cells[name].refused == why


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("internal_power", "internal_weather", r"^round has no tables of energies \(internal_power\)$"),
        ("nom_voltage", "nominal", r"^round does not say its supply"),
        ("0.003", "3000000", r"^round says that INV takes 3e\+06 pJ to rise and fall, beside .* cannot be$"),
        ('"0.003, 0.003")', '"0.003")', r"^a table rise_power has 3 values for 2 times 2 places$"),
    ],
)
def test_libraries_without_energies(old: str, new: str, message: str) -> None:
    with pytest.raises(NoPowerError, match=message):
        read(library().replace(old.encode(), new.encode()))


def test_truth() -> None:
    """The first pin is the lowest bit of a state."""
    assert truth("A !B", ("A", "B")) == (False, True, False, False)


def test_real_libraries(real_library: Library) -> None:
    """Libraries pass whose inner energies leave a load's charge out, or take it back at the other edge; none twice."""
    cells = read_cells(real_library)
    found = [each for each in cells.cells.values() if each.name.endswith(("inv_1", "nand2_1", "nor2_1"))]
    assert len(found) >= 3
    for each in found:
        load = sum(each.inputs[0].capacitances) / 2
        fall, rise = each.outputs[0].powers[0].energies
        assert fall
        assert rise
        few, many = (cells.unit * (rise(0.05, times * load) + fall(0.05, times * load)) for times in (1, 17))
        charge = 16 * load * cells.picofarads * cells.supply**2
        assert abs(many - few) < 0.1 * charge, (each.name, few, many, charge)
        assert -0.1 * charge / 16 < few < 20 * charge / 16
