"""Registers that only delay a value by several cycles."""

from collections.abc import Iterator

from openmxu_sim.netlist.rtlil import Bit, Flat

_LEAST = 64
"""Bits from which on such a register is a ring: a word that moves would be written anew in each cycle."""


def find_delays(flat: Flat) -> dict[str, int]:
    """Return registers that hold a value for each of several cycles, and of which only the last is used: its bits."""
    found: dict[str, int] = {}
    inside: dict[Bit, str] = {}  # bits that such a register alone may use
    for cell in flat.cells:
        shown = cell.connections.get("Q", ())
        if cell.type != "$dff" or len(shown) <= _LEAST or any(flat.initial.get(bit) for bit in shown):
            continue
        data = [flat.root(bit) for bit in cell.connections["D"]]
        width = data.index(shown[0]) if shown[0] in data else 0
        if width and len(shown) % width == 0 and data[width:] == list(shown[:-width]):
            found[cell.name] = width
            inside |= dict.fromkeys(shown[:-width], cell.name)
    for user, bit in _uses(flat) if inside else ():
        owner = inside.get(flat.root(bit))
        if owner is not None and owner != user:
            found.pop(owner, None)
    return found


def _uses(flat: Flat) -> Iterator[tuple[str, Bit]]:
    """Yield each use of a bit, with the cell's name if it is one's."""
    for bits in flat.outputs.values():
        yield from (("", bit) for bit in bits)
    for box in flat.boxes:
        for bits in box.connections.values():
            yield from (("", bit) for bit in bits)
    for cell in flat.cells:
        for port, bits in cell.connections.items():
            if port not in ("Q", "Y"):
                yield from ((cell.name, bit) for bit in bits)
