"""The steps: the same bytes each time, from the cache too; another seed's layout; the best of several."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from openmxu.runtime import cache
from openmxu.yosys import yowasp
from openmxu_layout.check.decks import Violations
from openmxu_layout.extract.arrivals import Timing
from openmxu_layout.flow import steps
from openmxu_layout.flow.steps import Foundry, Request, Source, lay_out
from openmxu_layout.route.routing import RoutingError

WITHOUT_CHECKS = Request(checks="none")


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(yowasp.folder()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


_forbidden = Mock(side_effect=AssertionError("this step was to come from the cache"))


@pytest.mark.usefixtures("empty_cache")
def test_the_same_layout_each_time(source: Source, foundry: Foundry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made anew, and from the cache, where no step runs again."""
    first = lay_out(source, foundry, WITHOUT_CHECKS, print)
    cache.clear()
    again = lay_out(source, foundry, WITHOUT_CHECKS, print)
    for name in ("synthesise", "place", "route", "arrivals"):
        monkeypatch.setattr(steps, name, _forbidden)
    kept = lay_out(source, foundry, WITHOUT_CHECKS, print)
    for other in (again, kept):
        assert other == first
    assert first.checked is None
    assert len(first.masks) > 10_000


@pytest.mark.usefixtures("empty_cache")
def test_a_run_goes_on_where_it_ended(source: Source, foundry: Foundry, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(steps, "route", Mock(side_effect=RoutingError("no room")))
        with pytest.raises(RoutingError):
            lay_out(source, foundry, WITHOUT_CHECKS, print)
    monkeypatch.setattr(steps, "place", _forbidden)
    lay_out(source, foundry, WITHOUT_CHECKS, print)
    with pytest.raises(AssertionError, match="from the cache"):  # other steps
        lay_out(source, foundry, Request(utilisation=0.6, checks="none"), print)


@pytest.mark.usefixtures("empty_cache")
def test_the_best_of_several_seeds(source: Source, foundry: Foundry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that are as good, the first."""
    place, delays = Mock(wraps=steps.place), [3.0, 0.5, 1.0, 0.5, 1.0, 0.5]  # with wires, and without
    monkeypatch.setattr(steps, "place", place)
    monkeypatch.setattr(steps, "arrivals", Mock(side_effect=map(Timing, delays)))
    outcome = lay_out(source, foundry, Request(seeds=3, checks="none"), print)
    seeds = [call.kwargs["seed"] for call in place.mock_calls]
    assert seeds == [layout.seed for layout in outcome.layouts] == [1, 2, 3]
    assert outcome.best == outcome.layouts[1]
    assert (outcome.best.timing, outcome.best.bare) == (Timing(1.0), Timing(0.5))


@pytest.mark.usefixtures("empty_cache")
def test_another_klayout_of_the_same_version_checks_again(
    source: Source, foundry: Foundry, pdk: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = {"one": Violations(91, {"M1.a": 1}, {}), "other": Violations(91, {}, {})}
    monkeypatch.setattr(steps, "_unproven", lambda *_: "")
    monkeypatch.setattr(steps, "check_circuit", lambda *_: [])
    for name, violations in found.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "klayout").write_text("#!/bin/sh\necho KLayout 0.28.5\n")
        (tmp_path / name / "klayout").chmod(0o755)
        with monkeypatch.context() as patched:
            patched.setenv("PATH", f"{tmp_path / name}:{os.environ['PATH']}")
            patched.setattr(steps, "check_rules", lambda *_, found=violations: found)
            checked = lay_out(source, replace(foundry, files=pdk), Request(), print).checked
        assert checked is not None
        assert checked.rules == {"minimal": violations}
        assert checked.supplies == []


def test_vias_on_pins_are_in_the_order_of_the_pins(source: Source, foundry: Foundry) -> None:
    """Which resistor of a net leads to which pin follows from it."""
    best = lay_out(source, foundry, WITHOUT_CHECKS, print).best
    at = {each.name: each for each in best.placed.instances}
    seen = 0
    for net, pins in best.placed.nets.items():
        for (name, pin), via in zip(pins, [via for via in best.routes[net].vias if via.level == 0], strict=True):
            cell, each = foundry.cells[at[name].master], at[name]
            y = cell.height - (via.y - each.y) if each.mirrored else via.y - each.y
            shapes = [rect for _, rect in cell.pins[pin].shapes]
            assert any(
                left - 145 <= via.x - each.x <= right + 145 and low - 145 <= y <= high + 145
                for left, low, right, high in shapes
            )
            seen += 1
    assert seen > 300


def test_a_clock_that_is_made_inside_is_refused(source: Source, foundry: Foundry) -> None:
    rtlil = "module \\gated\n  wire input 1 \\a\n  wire input 2 \\b\n  wire input 3 \\d\n  wire output 4 \\q\n"
    rtlil += "  wire \\c\n  cell $_AND_ \\and\n    connect \\A \\a\n    connect \\B \\b\n    connect \\Y \\c\n  end\n"
    rtlil += "  cell $_DFF_P_ \\dff\n    connect \\C \\c\n    connect \\D \\d\n    connect \\Q \\q\n  end\nend\n"
    with pytest.raises(ValueError, match=r"^clocks must come from input ports, without gates, not from c$"):
        lay_out(Source("gated", "gated", "attribute \\top 1\n" + rtlil), foundry, WITHOUT_CHECKS, print)
