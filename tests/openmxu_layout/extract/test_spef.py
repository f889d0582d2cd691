"""Wires as resistors and capacitors: hand-made nets whose values were worked out on paper."""

import re

import pytest

from openmxu_layout.extract.spef import write_spef
from openmxu_layout.placed import Placed
from openmxu_layout.route.routing import Route, Via, Wire

from ..conftest import IHP

NETS = {"o[0]": (("u1", "Y"), ("u2", "A")), "$7": (("u3", "Y"), ("u4", "B"))}
PLACED = Placed("case", 9600, 7560, (), {"o[0]": (1, 0, 840)}, NETS)
ROUTES = {
    # Up from u1 on metal 2 to a track of metal 3, which leads left to the port and right to u2's column.
    "o[0]": Route(
        [Wire(0, 1440, 420, 420), Wire(1, 0, 840, 2400), Wire(0, 1920, 840, 1260)],
        [Via(1, 1440, 840), Via(1, 1920, 840), Via(0, 1440, 420), Via(0, 1920, 2100)],
    ),
    "$7": Route([Wire(0, 4800, 0, 840)], [Via(0, 4800, 0), Via(0, 4800, 840)]),
}
DIRECTIONS = {"o[0]": "output"}


def _nets(text: str) -> dict[str, tuple[float, str]]:
    return {
        name: (float(total), body)
        for name, total, body in re.findall(r"^\*D_NET (\S+) (\S+)\n(.*?)^\*END", text, re.DOTALL | re.MULTILINE)
    }


def test_pieces_between_vias_and_ports() -> None:
    """0.44 Ω a µm, 2 Ω a via; 0.169121 fF a µm on metal 2, 0.182832 on metal 3."""
    total, body = _nets(write_spef(PLACED, ROUTES, IHP, DIRECTIONS))["o[0]"]
    assert total == pytest.approx(1.68 * 0.169121 + 2.4 * 0.182832, abs=1e-4)
    lines = body.split("\n")
    assert lines[:4] == ["*CONN", "*P o[0] O", "*I u1:Y O", "*I u2:A I"]
    ohms = sorted(float(line.split()[3]) for line in lines[lines.index("*RES") + 1 : -1])
    # Metal 3 has pieces of 1.44, 0.48 and 0.48 µm: what lies beyond u2's column ends in nothing.
    assert ohms == pytest.approx(sorted([0.1848, 0.6336, 0.2112, 0.2112, 0.5544, 2, 2, 2, 2]))
    farads = {
        node: float(value) for _, node, value in map(str.split, lines[lines.index("*CAP") + 1 : lines.index("*RES")])
    }
    assert farads["o[0]"] == pytest.approx(0.72 * 0.182832, abs=1e-4)
    assert sum(farads.values()) == pytest.approx(total, abs=1e-3)
    assert not {"u1:Y", "u2:A"} & farads.keys()  # a via has no capacitance


def test_all_of_a_net_hangs_together() -> None:
    for _, body in _nets(write_spef(PLACED, ROUTES, IHP, DIRECTIONS)).values():
        edges = re.findall(r"^\d+ (\S+) (\S+) \S+$", body, re.MULTILINE)
        reached = {edges[0][0]}
        for _ in edges:
            reached |= {node for edge in edges if reached & {*edge} for node in edge}
        assert (
            {node for edge in edges for node in edge} == reached >= {*re.findall(r"^\*[IP] (\S+)", body, re.MULTILINE)}
        )


def test_names_that_are_no_words_are_quoted() -> None:
    assert {*_nets(write_spef(PLACED, ROUTES, IHP, DIRECTIONS))} == {"o[0]", r"\$7"}
    assert {*_nets(write_spef(PLACED, ROUTES, IHP, {"o[0]": "output", "$7": "input"}))} == {"o[0]", "$7"}


def test_without_wires_nothing_is_left() -> None:
    text = write_spef(PLACED, ROUTES, IHP, DIRECTIONS, 0)
    assert {total for total, _ in _nets(text).values()} == {0}
    assert not re.search(r"^\d+ .* 0*\.?0*[1-9]", text, re.MULTILINE)


def test_nets_without_wires_are_left_out() -> None:
    assert _nets(write_spef(PLACED, ROUTES | {"$7": Route()}, IHP, DIRECTIONS)).keys() == {"o[0]"}


def test_a_pin_without_its_via_is_an_error() -> None:
    route = Route(ROUTES["$7"].wires, ROUTES["$7"].vias[1:])
    with pytest.raises(ValueError, match="shorter"):
        write_spef(PLACED, {"$7": route}, IHP, DIRECTIONS)
