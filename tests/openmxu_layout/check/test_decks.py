"""KLayout's databases, as text; a deck that fails, and a KLayout that crashes."""

import os
from pathlib import Path

import pytest

from openmxu_layout.check import decks
from openmxu_layout.check.decks import CheckError, Circuit, Place, check_rules, read_circuit, read_report

from ..conftest import needs_klayout


@needs_klayout
@pytest.mark.slow
def test_deck_that_fails_is_an_error(tmp_path: Path) -> None:
    deck = tmp_path / "deck.drc"
    deck.write_text("raise 'broken'")
    with pytest.raises(CheckError, match=r"broken"):
        check_rules(tmp_path / "none.gds", "none", deck, 1)


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


@pytest.mark.parametrize("cut", [0, 1, len(_REPORT) // 2, len(_REPORT) - 5])
def test_half_a_report_is_an_error(cut: int) -> None:
    with pytest.raises(CheckError, match=r"^KLayout must leave a whole report: .*$"):
        read_report(_REPORT[:cut])


@pytest.mark.parametrize("rules", [2, 4])
def test_a_report_with_another_number_of_rules_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: int
) -> None:
    """Whatever KLayout is, or leaves out."""
    monkeypatch.setattr(decks, "_klayout", lambda _, words, __: words["report_file"].write_text(_REPORT))
    assert check_rules(tmp_path / "masks.gds", "top", tmp_path / "deck", 3).rules == 3
    with pytest.raises(CheckError, match=f"^KLayout must check the {rules} rules of deck, not 3$"):
        check_rules(tmp_path / "masks.gds", "top", tmp_path / "deck", rules)


def test_violation_of_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(CheckError, match=r"rules that it does not list: M9\.a$"):
        read_report(_REPORT.replace("'M2Fil.h'", "'M9.a'"))


_DATABASE = """\
J(
 X(cell
  N(1 I(A)
  )
  N(2 I('Y[0]'))
  P(1 I(A))
  P(2 I('Y[0]'))
  P(3)
  D(1 D$nmos
   T(S 2)
  )
 )
 X(top
  N(1 I('a[0]')
   R(l1 (0 0) (1 1))
  )
  N(2)
  P(1 I('a[0]'))
  X(1 cell Y(0 0)
   P(0 1)
   P(1 2)
  )
  X(2 cell M O(180) Y(480 7560)
   P(0 2)
   P(2 1)
  )
 )
)
H(
 X(CELL
  N(1 I(Q))
  P(1 I('Y[0]'))
  P(2 I(A))
 )
)
Z(
 X(cell CELL 1
  Z(
   N(1 2 1)
   P(0 1 1)
   P(1 0 1)
   P(2 () 1)
  )
 )
 X(top TOP 0
  Z(
   N(1 2 0)
   P(0 0 0)
  )
 )
)
"""
_FIRST, _SECOND = Place("cell", "Y(0 0)"), Place("cell", "M O(180) Y(480 7560)")


def test_database_is_read() -> None:
    """KLayout's verdict on the whole circuit is left alone: nets that are alike are paired as it likes."""
    nets = [
        ("a[0]", frozenset({(_FIRST, "A"), (_SECOND, "no name")})),
        ("", frozenset({(_FIRST, "Y[0]"), (_SECOND, "A")})),
    ]
    assert read_circuit(_DATABASE.splitlines(), "top") == Circuit([_FIRST, _SECOND], nets, [])


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("X(cell CELL 1", "X(cell CELL 0", "circuit cell differs"),
        ("X(cell CELL 1", "X(cell CELL S B('not compared')", "circuit cell differs"),
        ("X(cell CELL 1", "X(cell () 1", "circuit cell differs"),
        ("X(cell CELL 1", "X(cell2 CELL2 1", "circuit cell differs"),
        ("   P(0 1 1)", "   P(0 0 1)", "circuit cell differs"),  # its A is the schematic's Y
        ("  X(1 cell", "  D(1 D$nmos\n  )\n  X(1 cell", "a transistor D$nmos is in no cell"),
    ],
)
def test_cells_that_differ_are_named(old: str, new: str, wrong: str) -> None:
    assert _DATABASE.count(old) == 1
    assert read_circuit(_DATABASE.replace(old, new).splitlines(), "top").wrong == [wrong]


def test_database_without_the_top_is_an_error() -> None:
    with pytest.raises(CheckError, match=r"^KLayout's database must have other$"):
        read_circuit(_DATABASE.splitlines(), "other")


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
