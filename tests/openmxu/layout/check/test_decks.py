"""A foundry's decks on masks drawn by hand: sound ones pass, and each damage is seen; KLayout's databases, as text."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from openmxu.layout.cells import Cell
from openmxu.layout.check import decks
from openmxu.layout.check.decks import CheckError, check_circuit, check_rules, read_comparison, read_report
from openmxu.layout.check.netlists import to_spice
from openmxu.layout.placed import Instance, Placed
from openmxu.layout.technology import Technology

gdstk = pytest.importorskip("gdstk", reason="the extra layout is not installed")

from .hand_drawn import draw  # noqa: E402  # needs gdstk

needs_klayout = pytest.mark.skipif(shutil.which("klayout") is None, reason="KLayout is not installed")
SUPPLIES = ("VDD", "VSS")


@pytest.fixture
def placed(library: Mapping[str, Cell]) -> Placed:
    """``y = ~~(~a & b[0])`` in one row."""
    row = [("u0", "inv_1"), ("u1", "nand2_1"), ("f0", "fill_4"), ("u2", "inv_1"), ("f1", "fill_2")]
    instances, at = [], 0
    for name, kind in row:
        instances.append(Instance(name, f"sg13g2_{kind}", at, 0, mirrored=False))
        at += library[f"sg13g2_{kind}"].width
    nets = {
        "a": (("u0", "A"),),
        "b[0]": (("u1", "B"),),
        "y": (("u2", "Y"),),
        "n0": (("u0", "Y"), ("u1", "A")),
        "n1": (("u1", "Y"), ("u2", "A")),
        "unused": (),
    }
    ports = dict.fromkeys(("a", "b[0]", "y", "unused"), (1, 0, 0))
    return Placed("hand", at, 3780, tuple(instances), ports, nets)


Top = gdstk.Cell
Checks = Callable[[Callable[[Top], None]], Path]


@pytest.fixture
def drawn(
    placed: Placed, library: Mapping[str, Cell], ihp: Technology, pdk: Mapping[str, Path], tmp_path: Path
) -> Checks:
    """Draw the row, with a damage."""

    def make(damage: Callable[[Top], None]) -> Path:
        draw(placed, library, ihp, pdk["masks"], tmp_path / "hand.gds", damage)
        return tmp_path / "hand.gds"

    return make


def _nothing(top: Top) -> None:
    pass


def _lose_via(number: int) -> Callable[[Top], None]:
    def damage(top: Top) -> None:
        top.remove([shape for shape in top.polygons if shape.layer == 19][number])

    return damage


def _short(top: Top) -> None:
    """Join the lowest two tracks."""
    top.add(gdstk.rectangle((0.5, 4.94), (0.7, 5.56), layer=30))


def _exchange_texts(top: Top) -> None:
    for text in top.labels:
        text.text = {"a": "b[0]", "b[0]": "a"}.get(text.text, text.text)


def _lose_text(top: Top) -> None:
    top.remove(next(text for text in top.labels if text.text == "a"))


def _move_cell(by: float) -> Callable[[Top], None]:
    """Move the last inverter over what fills the row to the right of it."""

    def damage(top: Top) -> None:
        cell = [each for each in top.references if each.cell.name == "sg13g2_inv_1"][-1]
        cell.origin = (cell.origin[0] + by, cell.origin[1])

    return damage


@needs_klayout
@pytest.mark.slow
def test_sound_masks_keep_the_rules_and_have_the_circuit(
    drawn: Checks, placed: Placed, pdk: Mapping[str, Path]
) -> None:
    masks = drawn(_nothing)
    rules = check_rules(masks, "hand", pdk["minimal"])
    assert (rules.rules, rules.counts) == (91, {})
    assert {"M1.j", "M3Fil.h"} < rules.densities.keys()
    schematic, ports = to_spice(placed, pdk["transistors"].read_text(), SUPPLIES)
    assert check_circuit(masks, schematic, ports, "hand", pdk["lvs"]) == []


@needs_klayout
@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_lose_via(3), "net "),  # within the circuit
        (_lose_via(0), "the net of pin a has no name"),  # of an input: KLayout says that all matches
        (_exchange_texts, "the net of pin a has b[0]"),  # likewise
        (_lose_text, "the net of pin a has no name"),  # likewise
        (_short, "net "),
        (_move_cell(0.96), "circuit hand differs"),
    ],
)
def test_damaged_masks_have_another_circuit(
    drawn: Checks, placed: Placed, pdk: Mapping[str, Path], damage: Callable[[Top], None], words: str
) -> None:
    schematic, ports = to_spice(placed, pdk["transistors"].read_text(), SUPPLIES)
    wrong = check_circuit(drawn(damage), schematic, ports, "hand", pdk["lvs"])
    assert [line for line in wrong if line.startswith(words)]


@needs_klayout
@pytest.mark.slow
def test_schematic_with_exchanged_inputs_is_another_circuit(
    drawn: Checks, placed: Placed, pdk: Mapping[str, Path]
) -> None:
    nets = {**placed.nets, "b[0]": (("u1", "A"),), "n0": (("u0", "Y"), ("u1", "B"))}
    other = Placed("hand", placed.width, placed.height, placed.instances, placed.ports, nets)
    schematic, ports = to_spice(other, pdk["transistors"].read_text(), SUPPLIES)
    assert check_circuit(drawn(_nothing), schematic, ports, "hand", pdk["lvs"]) != []


@needs_klayout
@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "rule"),
    [(lambda top: top.add(gdstk.rectangle((0.5, 4.94), (0.6, 5.3), layer=30)), "M3.b"), (_move_cell(0.24), "Cnt.b")],
    ids=["spacing", "cell"],
)
def test_broken_rules_are_counted(
    drawn: Checks, pdk: Mapping[str, Path], damage: Callable[[Top], None], rule: str
) -> None:
    assert rule in check_rules(drawn(damage), "hand", pdk["minimal"]).counts


@needs_klayout
@pytest.mark.slow
def test_deck_that_fails_is_an_error(drawn: Checks, tmp_path: Path) -> None:
    deck = tmp_path / "deck.drc"
    deck.write_text("raise 'broken'")
    with pytest.raises(CheckError, match=r"broken"):
        check_rules(drawn(_nothing), "hand", deck)


_REPORT = """\
<report-database>
 <categories>
  <category><name>M2.b</name><description>Min. Metal2 space or notch = 0.21</description></category>
  <category><name>M2.j</name><description>Min. global Metal2 density [%] = 35.00</description></category>
  <category><name>M2Fil.h</name><description>Min. Metal2 coverage ratio for any 800 x 800 area</description></category>
 </categories>
 <items>
  <item><category>'M2.b'</category></item><item><category>M2.b</category></item><item><category>'M2Fil.h'</category></item>
 </items>
</report-database>
"""


def test_densities_stand_apart_in_reports() -> None:
    rules = read_report(_REPORT)
    assert (rules.rules, rules.counts, rules.densities) == (3, {"M2.b": 2}, {"M2Fil.h": 1})


def test_violation_of_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(CheckError, match=r"rules that it does not list: M9\.a$"):
        read_report(_REPORT.replace("'M2Fil.h'", "'M9.a'"))


_COMPARISON = """\
J(
 X(top
  N(1 I('a[0]')
   R(l1 (0 0) (1 1))
  )
  N(2 I(y))
  N(3)
 )
)
H(
 X(TOP
  N(1 I(N7))
  N(2 I(N8))
  N(3 I(N9))
 )
)
Z(
 X(cell CELL 1
  Z(
   N(1 2 1)
  )
 )
 X(top TOP 1
  Z(
   N(1 2 1)
   N(2 1 W)
   N(3 3 1)
   X(1 1 1)
  )
 )
)
"""
_PORTS = {"a[0]": "n8", "y": "n7"}


def test_sound_comparison_is_read() -> None:
    assert read_comparison(_COMPARISON.splitlines(), _PORTS, "top") == []


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("X(cell CELL 1", "X(cell CELL 0", ["circuit cell differs"]),
        ("X(top TOP 1", "X(top TOP S B('not compared')", ["circuit top differs"]),
        ("N(3 3 1)", "N(() 3 0)", ["net () 3 of top differs"]),
        ("X(1 1 1)", "X(1 () 0)", ["cell 1 () of top differs"]),
        ("N(2 1 W)", "N(3 1 1)", ["the net of pin y has no name in the masks"]),
        ("I('a[0]')", "I('b[0]')", ["the net of pin a[0] has b[0] in the masks"]),
    ],
)
def test_unsound_comparison_is_seen(old: str, new: str, wrong: list[str]) -> None:
    assert _COMPARISON.count(old) == 1
    assert read_comparison(_COMPARISON.replace(old, new).splitlines(), _PORTS, "top") == wrong


def test_comparison_without_the_top_is_an_error() -> None:
    with pytest.raises(CheckError, match=r"^KLayout must compare other once, not 0 times$"):
        read_comparison(_COMPARISON.splitlines(), _PORTS, "other")


@pytest.mark.parametrize(("crashes", "runs"), [(0, 1), (2, 3), (5, 5)])
def test_klayout_runs_again_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crashes: int, runs: int
) -> None:
    program, log = tmp_path / "klayout", tmp_path / "log"
    program.write_text(f"#!/bin/sh\necho run >> {log}\n[ $(wc -l < {log}) -gt {crashes} ] || exit 11\necho fine\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    if crashes < runs:
        assert "fine" in decks._klayout(tmp_path / "deck", {}, tmp_path)
    else:
        with pytest.raises(CheckError, match="exit code 11"):
            decks._klayout(tmp_path / "deck", {}, tmp_path)
    assert len(log.read_text().splitlines()) == runs
