"""Energies of real parts, and of networks, on a library of our own: repeated figures, netlists broken on purpose."""

import json
import math
import re
import statistics
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from openmxu.area.finding.findings import Report
from openmxu.area.pages.explain import explain
from openmxu.area.pages.export import to_json
from openmxu.area.pages.markdown import to_markdown, to_summary
from openmxu.area.pages.schema import read_report
from openmxu.area.run.energy import OPERANDS, Energy, planned
from openmxu.area.run.job import execute
from openmxu.area.run.measure import Result, measure
from openmxu.area.subject import points
from openmxu.area.subject.designs import register_bits
from openmxu.area.subject.given import Given, read_given
from openmxu.area.subject.points import ADDER, CONVERTER, MULTIPLIER, PROCESSING_ELEMENT, point
from openmxu.area.target.targets import Area, choose_targets
from openmxu.cells.energies import read_cells
from openmxu.cells.liberty import parse_library
from openmxu.runtime import process
from openmxu.spec.formats import BF16, FORMATS, FP32
from openmxu.spec.stages import TERMS
from openmxu_sim import golden
from openmxu_sim.energy import meter, workloads
from openmxu_sim.energy.events import Player
from openmxu_sim.energy.inference import with_energies
from openmxu_sim.energy.meter import measure_one, netlist_of
from openmxu_sim.energy.timed import read_timed
from openmxu_sim.networks.costs import Costs, Ledger
from openmxu_sim.networks.numerics import Numerics, Work

from ...conftest import Command, Said, needs_compiler, slow, thorough
from .conftest import needs_sta
from .library import GATES, LOAD, flip_flop, library, with_reset

pytestmark = needs_compiler

LIBRARY = parse_library(library(), "round.lib")
[TARGET] = choose_targets([], [LIBRARY], ["area"])
AREA = "area --target generic --part adder --format fp8_e4m3 --liberty round.lib -o report"


@cache
def result(part: str, name: str, stages: int | None = None, terms: int = 1) -> Result:
    made = point(part, FORMATS[name], stages=stages, terms=terms)
    return measure(made, made.rtlil(), TARGET, execute)


def unmeasured(part: str, name: str, stages: int | None = None, terms: int = 1, *, area: float = 1.0) -> Result:
    """A result for plans and reports: its area is given, and its delay is 1 ns."""
    made = point(part, FORMATS[name], stages=stages, terms=terms)
    return Result(made, TARGET, Area(area, area), "", "", made.top, delay=1.0)


@pytest.mark.parametrize(
    ("part", "name", "total", "at_once"),
    [
        (MULTIPLIER, "fp8_e4m3", 3.47789, 2.01241),
        slow(ADDER, "bf16", 28.26458, 9.01090),
        (PROCESSING_ELEMENT, "fp8_e4m3", 55.60709, 20.83858),
        (CONVERTER, "bf16", 1.57923, 1.45493),
    ],
)
def test_figures(part: str, name: str, total: float, at_once: float) -> None:
    """The same as when they were written down: nothing in them is drawn anew, or depends on the machine."""
    found = measure_one(result(part, name), "normal")
    assert found.error == ""
    assert (found.total, found.at_once) == pytest.approx((total, at_once), rel=1e-4)


@pytest.mark.parametrize("stages", [slow(1), thorough(2), 3, *map(thorough, range(4, 7)), slow(7)])
@pytest.mark.parametrize("operands", ["normal", slow("digits")])
@pytest.mark.parametrize("terms", [slow(1), slow(2), 4, slow(8)])
def test_elements_of_all_stages(stages: int, operands: str, terms: int) -> None:
    """All outputs are golden; the element is where its pipeline says it is."""
    found = measure_one(result(PROCESSING_ELEMENT, "fp8_e4m3", stages, terms), operands)
    assert found.error == ""
    assert found.total > found.clock > 0.0


def test_operands() -> None:
    """A unit that does nothing takes what its clock takes, and each operand is more than the one after it."""
    element = result(PROCESSING_ELEMENT, "fp8_e4m3")
    found = {name: measure_one(element, name) for name in OPERANDS}
    assert not any(each.error for each in found.values())
    assert found["idle"].total == found["idle"].clock < found["normal"].clock
    assert found["normal"].total > found["relu"].total > found["zeros"].total > found["idle"].total
    assert {name: (each.cycles, each.seeds) for name, each in found.items()} == dict.fromkeys(OPERANDS, (128, 2))


@pytest.mark.parametrize("terms", [1, *map(slow, TERMS[1:])])
def test_clocks_of_elements(terms: int) -> None:
    """Idle: two edges of 0.02 pJ, and their load, for each bit of three operands a term, two marks and a sum."""
    found = measure_one(result(PROCESSING_ELEMENT, "fp8_e4m3", terms=terms), "idle")
    assert found.total == pytest.approx((3 * 8 * terms + 2 + 32) * (2 * 0.02 + 2 * 2.0 * LOAD))
    assert found.multiply_add == pytest.approx(found.total / terms)


@pytest.mark.parametrize("terms", [1, slow(4)])
def test_the_clock_does_not_matter(terms: int) -> None:
    """A longer cycle takes not a bit more energy: so elements with other delays have figures of the same clock."""
    element = result(PROCESSING_ELEMENT, "fp8_e4m3", terms=terms)
    player = Player(netlist_of(element))
    load = workloads.workload(element.point, "normal", stretches=8)
    before = player.play(load.inputs).energies
    player._passed.period *= 3
    assert (player.play(load.inputs).energies == before).all()


def test_several_terms_play_the_same_matrices() -> None:
    """The last term of four has, in the beats that count, what the element of row 63 has alone."""
    elements = [point(PROCESSING_ELEMENT, BF16, terms=terms) for terms in (1, 4)]
    loads = [workloads.workload(each, "normal", stretches=40) for each in elements]
    one, four = (each.inputs["i_activation"][each.counted] for each in loads)
    assert (one.shape, four.shape) == ((160, 16), (160, 64))
    assert (one == four[:, -16:]).all()


def layer_file(path: Path, **arrays: object) -> Path:
    """A file of a layer: 5 samples of 200 numbers, 7 outputs."""
    rng = np.random.default_rng(8)
    made = {"activations": rng.standard_normal((5, 200)), "weights": rng.standard_normal((200, 7))}
    np.savez(path, **(made | arrays))
    return path


def test_a_layer_of_a_users_own(tmp_path: Path) -> None:
    """Each stretch: samples that follow each other, 128 rows of the layer, columns of its weights."""
    layer = workloads.read_layer(layer_file(tmp_path / "layer.npz"))
    activations, weights = layer(np.random.default_rng(1), 40, 6)
    assert (activations.shape, weights.shape) == ((40, 6, 128), (40, 3, 128))
    for given, columns in zip(activations, weights, strict=True):
        [first] = np.flatnonzero((layer.activations[:, :128] == given[0]).all(axis=1))
        assert (given == layer.activations[(first + np.arange(6)) % 5, :128]).all()
        assert all(any((column == layer.weights[:128, each]).all() for each in range(7)) for column in columns)
    element = result(PROCESSING_ELEMENT, "fp8_e4m3")
    found = measure_one(element, "layer", layer=layer)
    assert found.error == ""
    assert found.total != measure_one(element, "normal").total
    # A small one fills the array.
    small = {"activations": np.random.default_rng(8).standard_normal((9, 50)), "weights": np.eye(50)}
    layer = workloads.read_layer(layer_file(tmp_path / "layer.npz", **small))
    activations, weights = layer(np.random.default_rng(1), 3, 4)
    assert (activations.shape, weights.shape) == ((3, 4, 128), (3, 3, 128))
    assert (np.abs(weights).sum(axis=-1) >= 2).all()  # twice a whole column of the layer, and a part of a third


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"weights": np.zeros((3, 7))}, "--layer must have as many columns of activations as rows of weights, not 200"),
        ({"weights": np.zeros(200)}, "--layer must have weights, a matrix of real numbers, which is float64 of shape"),
        ({"activations": np.zeros((2, 200), complex)}, "--layer must have activations, a matrix of real numbers"),
    ],
)
def test_what_is_no_layer(arrays: dict[str, object], complaint: str, tmp_path: Path, refused: Said) -> None:
    """Nothing is measured before."""
    (tmp_path / "round.lib").write_bytes(LIBRARY.text)
    layer_file(tmp_path / "layer.npz", **arrays)
    assert complaint in refused(f"{AREA} --layer layer.npz")


@pytest.mark.parametrize(
    ("part", "name", "terms"),
    [
        (MULTIPLIER, "fp8_e5m2", 1),
        *((part, "fp8_e4m3", 1) for part in (points.MULTIPLIER_TO_FP32, ADDER, CONVERTER, PROCESSING_ELEMENT)),
        *(slow(PROCESSING_ELEMENT, "fp8_e5m2", terms) for terms in TERMS if terms > 1),
    ],
)
def test_a_wrong_bit_gives_no_figure(part: str, name: str, terms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = result(part, name, terms=terms)
    netlist = netlist_of(made)
    kinds = {each.cell.name: each.cell for each in netlist.instances}
    # With several terms, the last one is of special values, which these operands do not have: there, all of them.
    for changed in [each for each in netlist.instances if each.cell.name == "NAND2"][-1 if terms == 1 else 0 :]:
        changed.cell = kinds["NOR2"]
    monkeypatch.setattr(meter, "netlist_of", lambda *_: netlist)
    monkeypatch.setattr(meter, "SEEDS", 3)  # nothing that is kept fits
    pattern = r"o\w* differs from the golden model's in \d+ cycles, first \d+"
    assert re.fullmatch(pattern, measure_one(made, "normal").error)


@pytest.mark.parametrize("name", [slow("bf16"), slow("tf32"), "fp8_e4m3"])
@pytest.mark.parametrize("terms", TERMS)
def test_stretches_are_pieces_of_tiles(name: str, terms: int) -> None:
    """The counted beats of a stretch have what a column of 128 rows would have, which is followed by hand here."""
    rng = np.random.default_rng(5)
    before, first = 3 + 2 * terms, {1: 63, 2: 62, 4: 60, 8: 56}[terms]
    activations, weights = (
        golden.convert(each.view(np.uint32), "fp32", name) for each in workloads._KINDS["normal"](rng, 64, before + 4)
    )
    beats = workloads._Beats.made(activations, weights, before, name, "flush", terms)
    shadow, active = (each.reshape(64, -1, terms) for each in beats.registers)
    for stretch in range(64):
        for number in range(before, before + 4):
            place = (4 * stretch + number - before) % 128
            own, chain = weights[stretch, 1, first : first + terms], list(weights[stretch, 1, first : first + terms])
            for row in range(127, max(first, 127 - place) - 1, -1):
                chain.insert(0, weights[stretch, 2, row])
            assert (active[stretch, number] == own).all()
            assert shadow[stretch, number].tolist() == chain[:terms]
    sums = np.zeros((64, 4), np.uint32)
    for row in range(0, first, terms):
        a, b = activations[:, before:, row : row + terms], weights[:, 1:2, row : row + terms]
        if terms == 1:
            sums = golden.add(sums, golden.multiply(a[..., 0], b[..., 0], name))
        else:
            sums = golden.dot_product_add(sums, a, b, name)
    assert (beats.sums.reshape(64, -1)[:, before:] == sums).all()
    assert beats.swaps.reshape(64, -1)[:, before:].sum() == 2  # tiles that begin in a stretch that counts


@needs_sta
def test_delays_are_those_of_opensta(tmp_path: Path) -> None:
    netlist = netlist_of(result(MULTIPLIER, "bf16"))
    (tmp_path / "library.lib").write_bytes(LIBRARY.text)
    sides = ("input", netlist.inputs), ("output", netlist.outputs)
    ports = [f"{direction} n{net}" for direction, nets in sides for bits in nets.values() for net in bits]
    lines = [f"module top({', '.join(ports)});", "supply0 n0; supply1 n1;"]
    for number, each in enumerate(netlist.instances):
        pins = [*zip(each.cell.inputs, each.inputs, strict=True), *zip(each.cell.outputs, each.outputs, strict=True)]
        nets = [f".{pin.name}(n{net})" for pin, net in pins]
        lines.append(f"{each.cell.name} u{number} ({', '.join(nets)});")
    (tmp_path / "top.v").write_text("\n".join([*lines, "endmodule", ""]))
    (tmp_path / "script.tcl").write_text(
        "read_liberty library.lib\nread_verilog top.v\nlink_design top\nwrite_sdf -digits 6 found.sdf\n"
    )
    process.run(["sta", "-no_splash", "-exit", "script.tcl"], what="OpenSTA", limit=100, directory=tmp_path)
    ratios = []
    for part in (tmp_path / "found.sdf").read_text().split("(INSTANCE u")[1:]:
        each = netlist.instances[int(part.partition(")")[0])]
        for arc in re.finditer(r"\(IOPATH (\w+) (\w+) \(([^)]*)\) \(([^)]*)\)\)", part):
            pin = [pin.name for pin in each.cell.inputs].index(arc[1])
            for edge, text in ((1, arc[3]), (0, arc[4])):
                ours = max(delay for pair in each.delays[0][pin] if not math.isnan(delay := pair[edge]))
                ratios.append(ours / 1000 / max(float(delay) for delay in text.split(":") if delay))
    assert len(ratios) > 1000
    assert statistics.median(ratios) == pytest.approx(1, abs=0.01)
    assert sum(abs(ratio - 1) < 0.01 for ratio in ratios) > 0.99 * len(ratios)


def test_what_is_measured() -> None:
    """Parts with known operands, on cell libraries, with the recipes that are compared."""
    element, four = (unmeasured(PROCESSING_ELEMENT, "fp8_e4m3", terms=terms) for terms in (1, 4))
    for each in (element, four):
        assert planned([each]) == [(each, operands) for operands in OPERANDS]
    later = unmeasured(PROCESSING_ELEMENT, "fp8_e4m3", 2)
    in_full = replace(four, point=replace(four.point, scope="area"))  # as in a full report
    for each in (later, in_full):
        assert planned([each]) == [(each, "normal")]
    assert planned([element, later], layer=True)[-2:] == [(element, "layer"), (later, "normal")]
    for other in (point(points.PRODUCT, BF16), point(ADDER, FP32, subnormals="ieee")):
        assert planned([replace(element, point=other)]) == []
    adder, own = unmeasured(ADDER, "fp8_e5m2"), given()
    assert planned([adder, own]) == [(adder, "normal"), (adder, "random"), (own, "random")]


COUNTER = """
module counter(input clock, input arst_n, input [3:0] step, output reg [7:0] sum, output wire odd);
  assign odd = ^sum;
  always @(posedge clock or negedge arst_n)
    if (!arst_n) sum <= 0; else sum <= sum + step;
endmodule
"""


@cache
def given(text: str = COUNTER, top: str = "counter") -> Result:
    with process.workspace() as work:
        (work / "design.v").write_text(text)
        [made], unread = read_given([Given((work / "design.v",), top)], 100, lambda line: None)
    assert not unread
    cells = parse_library(library(GATES + flip_flop() + with_reset(), name="reset"), "reset.lib")
    return measure(made, made.rtlil(), choose_targets([], [cells], ["area"])[0], execute)


def test_a_design_of_ones_own() -> None:
    """Its sum is that of its random steps: counted here, by nothing that has measured it."""
    made = given()
    found = measure_one(made, "random")
    assert found.error == ""
    assert found.total > found.clock > 0
    assert 0 < found.at_once < found.total
    netlist = netlist_of(made)
    assert netlist.held == {"arst_n": 1}
    load = workloads.random_workload(netlist, cycles=100, seed=1)
    sums = np.concatenate([[0], np.cumsum(load.inputs["step"] @ (1 << np.arange(4)))[:-1]]) % 256
    assert (load.outputs["sum"] @ (1 << np.arange(8)) == sums).all()
    assert (load.outputs["odd"][:, 0] == np.bitwise_count(sums) % 2).all()
    assert load.counted.sum() == 100


def test_a_wrong_cell_gives_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the player and the cells without delays disagree."""
    made = given()
    right = workloads.settled
    monkeypatch.setattr(
        workloads, "settled", lambda *a: {name: bits ^ (name == "odd") for name, bits in right(*a).items()}
    )
    monkeypatch.setattr(meter, "SEEDS", 4)  # nothing that is kept fits
    assert measure_one(made, "random").error == "odd differs from its cells' without delays in 144 cycles, first 0"


def test_a_reset_that_no_input_is_called() -> None:
    found = measure_one(given(COUNTER.replace("arst_n", "start")), "random")
    assert re.fullmatch("the asynchronous reset of .* is no input with the name of one, as rst is", found.error)


@pytest.mark.parametrize(
    ("name", "level"),
    [
        *((name, 0) for name in ("rst", "reset_i", "async_rst")),
        *((name, 1) for name in ("rst_ni", "i_rst_n", "aresetn", "nReset", "RESET_B")),
        *((name, None) for name in ("first", "restart", "burst", "preset")),
    ],
)
def test_names_of_resets(name: str, level: int | None) -> None:
    ports = {name: {"direction": "input", "bits": [2]}, "y": {"direction": "output", "bits": [2]}}
    made = read_timed(json.dumps({"modules": {"top": {"ports": ports, "cells": {}}}}), "top", read_cells(LIBRARY))
    assert made.held == ({} if level is None else {name: level})


def test_page() -> None:
    """Ratios, parts, operands and published figures, by numbers that can be followed by hand."""
    figures = [(PROCESSING_ELEMENT, "bf16", "normal", 2.0, 10.0), (PROCESSING_ELEMENT, "bf16", "idle", 2.0, 2.0)]
    figures += [(PROCESSING_ELEMENT, "fp16", "normal", 2.0, 15.0), (PROCESSING_ELEMENT, "fp32", "normal", 2.0, 40.0)]
    figures += [(MULTIPLIER, "fp16", "normal", 0.0, 5.0), (MULTIPLIER, "fp32", "normal", 0.0, 20.0)]
    areas = {"bf16": 2.0, "fp16": 3.0, "fp32": 12.0}
    energies = [
        Energy(
            unmeasured(part, name, area=areas[name]), kind, 1024, 3, clock, clock, total - 2 * clock, total / 2, 0.01
        )
        for part, name, kind, clock, total in figures
    ]
    text = to_markdown(Report("Yosys 1", [each.result for each in energies], energies=energies))
    row = "| energy, processing element of one stage mapped for area | 1.50 ± 0.02 | 4.00 ± 0.06 | 10.0 pJ |"
    assert row in text.partition("\n## The claims")[0]
    assert "| round | area | 10.0 ± 1.0% | 200 | 1.50 | 4.00 |" in text
    assert "| round | area | processing element bf16 | 10.00 | 1.0% | 2.00 | 2.00 | 6.00 | 5.00 |" in text
    assert "| round | area | bf16 | 10.00 | - | - | - | 2.00 |" in text
    assert "| round | one stage, area | 0.50 | 1.00 | 1.50 | 0.75 | 1.50 | 2.25 |" in text
    assert "| multiplier | round | area | 5.00 | 20.00 | 4.00 |" in text
    assert "| multiplier | Horowitz, ISSCC 2014, 45 nm | - | 1.1 | 3.7 | 3.36 |" in text
    assert "Energy" not in to_summary(Report("Yosys 1", [each.result for each in energies]))


def test_page_of_several_terms(tmp_path: Path) -> None:
    """10 pJ for a product, and 28 for four: 7 each, by 0.7 times the energy; also in the file, and explained."""
    one, four = (unmeasured(PROCESSING_ELEMENT, "bf16", 2, terms) for terms in (1, 4))
    energies = [Energy(one, "normal", logic=10.0), Energy(four, "normal", logic=28.0), Energy(four, "idle", logic=9.0)]
    found = Report("Yosys 1", [one, four], energies=energies)
    assert "| round | area | bf16 | 2 | 10.00 | 7.00 (0.70) |" in to_markdown(found)
    assert "| round | area | bf16 | 2 | 7.00 |" in to_markdown(replace(found, energies=energies[1:]))
    assert "pJ, 1 term" not in to_markdown(replace(found, energies=energies[:1]))
    (tmp_path / "area.json").write_text(to_json(found))
    read = read_report(tmp_path / "area.json")
    assert [each["multiply_add"] for each in read["energies"]] == [10.0, 7.0, 2.25]
    assert "normal: 28.00 pJ a cycle, 7.00 for each multiply-add, clock" in explain(read, four.figure)
    assert "normal: 10.00 pJ a cycle, clock" in explain(read, one.figure)


def test_page_of_a_design_of_ones_own() -> None:
    own, ours = given(), unmeasured(ADDER, "fp8_e5m2")
    energies = [Energy(own, "random", 1024, 3, 1.0, 2.0, 3.0, 5.0, 0.01)]
    energies += [Energy(ours, "random", 1024, 3, 0.0, 0.0, 7.0, 5.0, 0.01)]
    text = to_markdown(Report("Yosys 1", [own, ours], energies=energies))
    assert "| reset | area | counter | 6.00 | 1.0% | 1.00 | 2.00 | 3.00 | 5.00 |" in text
    assert "| round | area | adder fp8_e5m2 | 7.00 |" in text
    assert text.count("| adder fp8_e5m2 | 7.00") == 1


def test_command_line(tmp_path: Path, command: Command, shown: Said) -> None:
    (tmp_path / "round.lib").write_bytes(LIBRARY.text)
    code, _, err = command(f"{AREA} --energy")
    assert code == 0
    [adder] = json.loads((tmp_path / "report" / "area.json").read_text())["energies"]
    assert (adder["name"], adder["error"]) == ("adder fp8_e4m3", "")
    assert adder["total"] == adder["logic"] > 0
    assert "## Energies of all designs" in (tmp_path / "report" / "report.md").read_text()
    assert "pJ a cycle" in err
    said = f"  energy   normal: {adder['total']:.2f} pJ a cycle, clock pins 0.00"
    assert said in shown(AREA, "--explain", "adder fp8_e4m3")


def test_without_a_library(refused: Said) -> None:
    said = "openmxu area: --energy needs a cell library that has energies: --liberty FILE\n"
    assert refused("area --energy --target generic -o report") == said


def test_a_library_without_energies(tmp_path: Path, command: Command) -> None:
    (tmp_path / "round.lib").write_bytes(library(name="bare").replace(b"internal_power", b"internal_weather"))
    code, _, err = command(f"{AREA} --energy")
    why = "bare has no tables of energies (internal_power)"
    assert code == 2
    assert err.splitlines()[-1] == f"no energy of adder fp8_e4m3 on bare: {why}"
    report = {path.name: path.read_text() for path in (tmp_path / "report").iterdir() if path.is_file()}
    assert "adder fp8_e4m3" in report["area.csv"]
    [row] = json.loads(report["area.json"])["energies"]
    assert (row["total"], row["error"]) == (None, why)
    assert f"| bare | adder fp8_e4m3 | normal | {why} |" in report["summary.md"]


# Energies of networks, put together as the page of units says


_MEASURED = "where energies are measured"


def costs(numerics: Numerics, stages: int = 1) -> Costs:
    ledger = Ledger(numerics.unit(3, stages), numerics)
    ledger.note(Work("mm", 1, 5, 4, 3, "layer"))
    return ledger.costs()


@pytest.mark.parametrize("terms", [1, slow(2)])
def test_energies_of_networks(terms: int) -> None:
    """A 2x3 unit of fp8: each part as often as it is there in a beat of 6 products."""
    told: list[str] = []
    given = costs(Numerics("fp8_e4m3", rows=2, terms=terms))
    [found] = with_energies([given], LIBRARY, told.append)
    elements = {1: 6, 2: 3}[terms]
    element = measure_one(result(PROCESSING_ELEMENT, "fp8_e4m3", terms=terms), "normal")
    idle = measure_one(element.result, "idle")
    adder, converter = (measure_one(result(*part), "normal") for part in ((ADDER, "fp32"), (CONVERTER, "fp8_e4m3")))
    bits, counted = sum(register_bits(found.config)), element.result.area
    assert counted is not None
    a_bit = (element.clock + element.flip_flops) / counted.flip_flops
    product = (elements * element.total + 5 * converter.total + 3 * adder.total + bits * a_bit) / 6
    still = elements * idle.total / 6 + bits * idle.clock / counted.flip_flops / 6
    expected = 5 * 4 * 3 * product + (6 * found.cycles - 5 * 4 * 3) * still
    assert found.millijoules == pytest.approx(expected / 1e9)
    assert any("pJ a cycle" in line for line in told)


@pytest.mark.parametrize(
    ("numerics", "stages", "error", "text"),
    [
        (Numerics(accumulate="bf16"), 1, ValueError, f"accumulate must be fp32 {_MEASURED}, not 'bf16'$"),
        (Numerics(), 3, ValueError, f"stages must be 1 {_MEASURED}, not '3'$"),
        (Numerics(subnormals="ieee"), 1, ValueError, f"subnormals must be flush {_MEASURED}, not 'ieee'$"),
        (Numerics(), 1, OSError, r"liberty must be a readable file, not 'nowhere\.lib': No such file"),
    ],
)
def test_networks_without_energies(numerics: Numerics, stages: int, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{text}"):
        with_energies([costs(numerics, stages)], "nowhere.lib")
