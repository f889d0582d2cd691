"""A technology that the router cannot keep the rules of is refused."""

from importlib.resources import files

import pytest

from openmxu_layout.technology import load_technology

from .conftest import IHP

_TEXT = files("openmxu_layout").joinpath("ihp_sg13g2.toml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("y = 420", "y = 405", "tracks side by side must keep the spacing"),
        ("end = 155", "end = 320", "two steps on a track must keep the spacing"),
        ("area = 144_000", "area = 147_000", "a step of wire must have the least area"),
        ("via_spacing = 220", "via_spacing = 235", "vias side by side must keep the spacing"),
        ("via = 190", "via = 205", "a wire must cover its vias"),
        ("row = 3780", "row = 3800", "a row must be a number of tracks high"),
        ("shift = 2", "shift = 3", "a strap must cover its vias"),
    ],
)
def test_rules_that_wires_would_break(old: str, new: str, rule: str) -> None:
    assert _TEXT.count(f"\n{old}\n") == 1
    with pytest.raises(ValueError, match=f"^technology cannot be routed: {rule}$"):
        load_technology(_TEXT.replace(f"\n{old}\n", f"\n{new}\n"))


def test_wires_of_ihp_sg13g2() -> None:
    """Vertical on metal 2, horizontal on metal 3; a via's pad is 310 nm long."""
    assert IHP.wire(0, 960, 420) == (860, 265, 1060, 575)
    assert IHP.wire(1, 960, 420, 480) == (805, 320, 1595, 520)
    assert [IHP.step(level) for level in range(4)] == [420, 480, 420, 480]
    assert [metal.name for metal in IHP.metals] == ["Metal2", "Metal3", "Metal4", "Metal5"]
