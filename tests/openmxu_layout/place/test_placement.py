"""Places of cells: rows without gaps or overlaps, pins on tracks in their order, seeds, a fixed utilisation."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby, pairwise

import pytest

from openmxu.cells.lef import LefCell
from openmxu_layout.place.placement import place
from openmxu_layout.place.synthesis import Mapped
from openmxu_layout.placed import Placed

from ..conftest import IHP
from ..netlists import KIT, LIBRARY, shift_register

pytest.importorskip("coloquinte", reason="the extra layout is not installed")


FEW = replace(IHP, kit=KIT)
"""The technology with a library of few cells."""


def _is_legal(placed: Placed, library: Mapping[str, LefCell]) -> bool:
    """Whether each row is one piece of cells from edge to edge, on sites, and mirrored in turn."""
    rows = defaultdict(list)
    for each in placed.instances:
        rows[each.y].append((each.x, each.x + library[each.master].width))
        if each.x % 480 or each.mirrored != (each.y // 3780 % 2 == 1):
            return False
    for cells in rows.values():
        cells.sort()
        if (cells[0][0], cells[-1][1]) != (0, placed.width) or any(
            one[1] != other[0] for one, other in pairwise(cells)
        ):
            return False
    return sorted(rows) == [*range(0, placed.height, 3780)]


def test_rows_are_full_and_netlist_is_kept() -> None:
    design = shift_register(40)
    placed = place(design, LIBRARY, FEW, utilisation=0.6)
    assert _is_legal(placed, LIBRARY)
    assert design.instances.items() <= {i.name: i.master for i in placed.instances}.items()
    assert placed.nets["d7"] == design.nets["d7"]
    cells = sum(LIBRARY[each.master].width for each in placed.instances if each.master not in FEW.kit.fill) * 3780
    assert 0.58 < cells / (placed.width * placed.height) <= 0.6
    assert 0.8 < placed.width / placed.height < 1.25
    assert sum(each.master == "clock_buffer" for each in placed.instances) == 3


def test_checker_sees_a_moved_cell() -> None:
    placed = place(shift_register(4), LIBRARY, FEW)
    first, *others = placed.instances
    for moved in (
        replace(first, x=first.x + 480),
        replace(first, x=first.x + 5),
        replace(first, mirrored=not first.mirrored),
    ):
        assert not _is_legal(replace(placed, instances=(moved, *others)), LIBRARY)


def test_seed_alone_changes_places() -> None:
    design = shift_register(150)
    first, again, other = (place(design, LIBRARY, FEW, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.instances != other.instances
    assert first.ports == other.ports


def test_cells_of_a_net_come_together() -> None:
    """Neighbours in a shift register are nearer than cells on average, which are half a core apart."""
    placed = place(shift_register(60), LIBRARY, FEW)
    at = {each.name: each for each in placed.instances}
    steps = [
        abs(at[f"register{number}"].x - at[f"register{number + 1}"].x)
        + abs(at[f"register{number}"].y - at[f"register{number + 1}"].y)
        for number in range(59)
    ]
    assert sum(steps) / 59 < (placed.width + placed.height) / 8


def test_pins_go_round_the_core_on_tracks() -> None:
    design = shift_register(40)
    ports = {**design.ports, **{f"spare[{number}]": "input" for number in range(17)}}
    nets = {**design.nets, **dict.fromkeys(ports.keys() - design.ports.keys(), ())}
    placed = place(replace(design, ports=ports, nets=nets), LIBRARY, FEW)
    assert [*placed.ports] == [*ports]
    sides = []
    for level, x, y in placed.ports.values():
        assert (x % 480, y % 420) == (0, 0)
        edges = {"west": x, "north": placed.height - y, "east": placed.width - x, "south": y}
        [side] = (name for name, distance in edges.items() if distance <= 0)
        assert edges[side] == 0
        assert FEW.metals[level].name == {"west": "Metal3", "east": "Metal3"}.get(side, "Metal4")
        sides.append(side)
    assert [side for side, _ in groupby(sides)] == ["west", "north", "east", "south"]


def test_more_pins_than_tracks_are_refused() -> None:
    design = shift_register(1)
    spare = {f"spare[{number}]": "input" for number in range(999)}
    crowded = replace(design, ports={**design.ports, **spare}, nets={**design.nets, **dict.fromkeys(spare, ())})
    with pytest.raises(
        ValueError,
        match=r"^pins must be at most \d+, the tracks that end around the core, not 1002; choose a lower utilisation$",
    ):
        place(crowded, LIBRARY, FEW)


@pytest.mark.parametrize("utilisation", [0.0, 0.049, 1.0])
def test_utilisation_outside_its_domain_is_refused(utilisation: float) -> None:
    with pytest.raises(ValueError, match=f"^utilisation must be at least 0.05 and below 1, not {utilisation}$"):
        place(shift_register(1), LIBRARY, FEW, utilisation=utilisation)


def test_rows_that_cells_do_not_fit_into() -> None:
    """Two registers of 20 sites and two inverters of 3, in two rows of 23 sites."""
    assert _is_legal(place(shift_register(2), LIBRARY, FEW, utilisation=0.6), LIBRARY)
    with pytest.raises(
        ValueError, match=r"^shift cannot be placed: the rows are too full; choose a lower utilisation$"
    ):
        place(shift_register(3), LIBRARY, FEW, utilisation=0.99)


def test_a_core_has_room_for_its_widest_cell_and_for_straps() -> None:
    straps = 2 * (3800 + 1640)
    gate = Mapped("gate", {"u0": "inverter"}, {"i": (("u0", "A"),), "o": (("u0", "Y"),)}, {"i": "input", "o": "output"})
    placed = place(gate, LIBRARY, FEW)
    assert straps <= placed.width < straps + 480
    assert _is_legal(placed, LIBRARY)
    wide = {**LIBRARY, "inverter": replace(LIBRARY["inverter"], width=480 * 40)}
    assert place(gate, wide, FEW, utilisation=0.99).width == 480 * 40
