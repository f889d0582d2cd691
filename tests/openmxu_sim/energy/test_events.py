"""Netlists of a few cells: when what changes, and what it takes, followed by hand."""

import json
from typing import Any

import numpy as np
import pytest

from openmxu.area.target.liberty import parse_library
from openmxu_sim.energy.cells import read_cells
from openmxu_sim.energy.events import Activity, Player
from openmxu_sim.energy.timed import TimedNetlist, UnsuitableError, read_timed

from .library import GATES, LOAD, flip_flop, library, with_reset

CELLS = read_cells(parse_library(library(GATES + flip_flop() + with_reset()), "test"))

NO_RESET = "is no input with the name of one, as rst is"

HALF = 2.0 * LOAD
"""pJ: half of the charge of one input pin at 2 V."""


def netlist(ports: str, *cells: tuple[Any, ...]) -> TimedNetlist:
    """Ports as in ``a:2 clk:3 > y:4``, and cells as (kind, nets of pins in the order of their names)."""
    pins = {"INV": "AY", "DFF": "CDQ", "DFFR": "CDRQ"}
    sides = zip(("input", "output"), ports.split(">"), strict=True)
    named = [(direction, *port.split(":")) for direction, side in sides for port in side.split()]
    connected = [dict(zip(pins.get(kind, "ABY"), ([net] for net in nets), strict=False)) for kind, *nets in cells]
    module = {
        "ports": {name: {"direction": direction, "bits": [int(bit)]} for direction, name, bit in named},
        "cells": {f"u{at}": {"type": cells[at][0], "connections": nets} for at, nets in enumerate(connected)},
    }
    return read_timed(json.dumps({"modules": {"top": module}}), "top", CELLS)


def run(made: TimedNetlist, **inputs: str) -> Activity:
    """Levels of each input, a character a cycle."""
    levels = {name: np.array([[int(level)] for level in each], np.uint8) for name, each in inputs.items()}
    return Player(made).play(levels)


def bits(activity: Activity, port: str) -> str:
    return "".join(map(str, activity.outputs[port][:, 0]))


def test_an_inverter() -> None:
    """Its input's charge and edge, its output's edge; the output has no load."""
    found = run(netlist("a:2 > y:3", ("INV", 2, 3)), a="0110")
    assert bits(found, "y") == "1001"
    rise, fall = 0.0005 + HALF + 0.001, 0.0005 + HALF + 0.003
    assert found.energies[:, 2] == pytest.approx([0, rise, 0, fall])
    assert found.at_once == pytest.approx([0, rise, 0, fall])
    assert found.toggles.tolist() == [0, 2, 0, 2]
    assert not found.energies[:, :2].any()


def test_delays_follow_loads() -> None:
    """Three inverters: the first one's output has two pins to drive."""
    made = netlist("a:2 > y:4 z:5", ("INV", 2, 3), ("INV", 3, 4), ("INV", 3, 5))
    first = next(each for each in made.instances if each.name == "u0")
    assert first.delays[0][0][0][1] == pytest.approx(1000 * (0.1 + 10 * 2 * LOAD))
    assert first.delays[0][0][1][0] == pytest.approx(1000 * (0.05 + 5 * 2 * LOAD))
    assert made.charges[first.outputs[0]] == pytest.approx(2 * HALF)
    assert made.longest == pytest.approx(1000 * (0.1 + 0.2 + 0.1))


def hazard(pairs: int) -> TimedNetlist:
    """A and its inverse, late by an odd number of inverters (0.2 and 0.1 ns each), into an AND of 0.45 and 0.225 ns."""
    chain = [("INV", 2 if not number else 2 + number, 3 + number) for number in range(2 * pairs + 1)]
    return netlist(f"a:2 > y:{99}", *chain, ("AND2", 2, 3 + 2 * pairs, 99))


def test_short_pulses_do_not_get_through() -> None:
    """The AND would be high for 0.1 ns, or, with more inverters, for 0.4 and 0.7: it needs 0.45 to rise."""
    assert [run(hazard(pairs), a="01").toggles[1] for pairs in (0, 1, 2)] == [2, 4, 6 + 2]
    assert bits(run(hazard(2), a="01"), "y") == "00"


def test_a_pulse_counts_twice() -> None:
    """Up and down, of which a simulation without delays knows nothing."""
    found = run(hazard(2), a="01")
    chain = 7 * 0.0005 + 7 * HALF + 3 * 0.001 + 2 * 0.003
    assert found.at_once[1] == pytest.approx(chain)
    assert found.energies[1, 2] == pytest.approx(found.at_once[1] + 0.003 + 0.001)


def test_a_flip_flop() -> None:
    """It stores what was there before the edge: the first Q is power-up's 0, and the inverter's loop divides by two."""
    made = netlist("clk:2 a:9 > q:3", ("DFF", 2, 4, 3), ("INV", 3, 4))
    found = run(made, a="0000")
    assert bits(found, "q") == "1010"
    # The clock net twice, 0.04 for a rising edge that stores another bit, 0.02 for the falling one.
    assert found.energies[:, 0] == pytest.approx([2 * HALF + 0.04 + 0.02] * 4)
    assert found.energies[:, 1] == pytest.approx([0.01 + HALF, 0.005 + HALF] * 2)  # Q with its load


def test_shift_register() -> None:
    """No bit runs through two flip-flops at one edge."""
    found = run(netlist("clk:2 d:3 > q:5", ("DFF", 2, 3, 4), ("DFF", 2, 4, 5)), d="1011000")
    assert bits(found, "q") == "0010110"


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: netlist("a:2 > y:3", ("WOMBAT", 2, 3)), "cell u0 is a WOMBAT, which is not in round"),
        (lambda: netlist("a:2 > y:3", ("NAND2", 2, 3, 3)), "it has a combinational loop, at u0"),
        (lambda: netlist("c:2 d:3 > q:4", ("DFF", 2, 3, 4)), "the clock of u0 is not the port clk"),
        (lambda: netlist("clk:2 r:3 > q:5", ("DFFR", 2, "1", 3, 5)), f"the asynchronous reset of u0 {NO_RESET}"),
    ],
)
def test_what_cannot_be_played(made: Any, why: str) -> None:
    with pytest.raises(UnsuitableError, match=rf"^{why}$"):
        made()


def test_a_reset_that_is_never_used() -> None:
    """Its pin is held at the level at which it does nothing."""
    assert netlist("clk:2 d:3 > q:5", ("DFFR", 2, 3, "1", 5)).gates == 0
