"""Small netlists, and a library that has their cells, made by hand."""

from openmxu.cells.lef import LefCell, Pin
from openmxu_layout.kit import Buffer, Kit
from openmxu_layout.place.synthesis import Mapped

KIT = Kit(
    files={},
    decks={},
    unused=[],
    tie_low=["low", "Y"],
    tie_high=["high", "Y"],
    buffer=Buffer("buffer", "A", "Y"),
    clock_buffer=Buffer("clock_buffer", "A", "Y"),
    clock_pin="C",
    fill=["gap4", "gap1"],
)


def _cell(sites: int, **directions: str) -> LefCell:
    pins = {
        name: Pin(direction=direction, shapes=[("Metal1", (number * 480, 420, number * 480 + 160, 840))])
        for number, (name, direction) in enumerate(directions.items())
    }
    return LefCell(sites * 480, 3780, pins)


LIBRARY = {
    "inverter": _cell(3, A="INPUT", Y="OUTPUT"),
    "nand": _cell(4, A="INPUT", B="INPUT", Y="OUTPUT"),
    "register": _cell(20, D="INPUT", C="INPUT", Q="OUTPUT"),
    "buffer": _cell(5, A="INPUT", Y="OUTPUT"),
    "clock_buffer": _cell(8, A="INPUT", Y="OUTPUT"),
    "high": _cell(4, Y="OUTPUT"),
    "gap4": _cell(4),
    "gap1": _cell(1),
}


def shift_register(length: int) -> Mapped:
    """Registers in a row, each with an inverter before it."""
    instances = {}
    nets: dict[str, list[tuple[str, str]]] = {"i": [], "clk": [], "o": []}
    before = "i"
    for number in range(length):
        instances |= {f"inverter{number}": "inverter", f"register{number}": "register"}
        after = "o" if number == length - 1 else f"q{number}"
        nets[before].append((f"inverter{number}", "A"))
        nets[f"d{number}"] = [(f"inverter{number}", "Y"), (f"register{number}", "D")]
        nets[after] = [(f"register{number}", "Q")]
        nets["clk"].append((f"register{number}", "C"))
        before = after
    ports = {"i": "input", "clk": "input", "o": "output"}
    return Mapped("shift", instances, {net: tuple(ends) for net, ends in nets.items()}, ports)
