"""The cells of a Liberty library: their functions, delays and energies.

Energies follow the library's convention: the energy within a cell, to which half of the load times the square of the
supply is added at each transition of an output. Some libraries (SkyWater's) count the whole charge of the load at the
rising edge and none at the falling one: their inner energies grow with the load at one and fall at the other, and only
both together mean something.
"""

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from openmxu.cells.liberty import Group, Library, evaluate, parse_groups

MOST_PINS = 6
"""Most inputs of a cell that can be simulated, its stored bit counted as one."""

_CLOCKED = ("rising_edge",)
_COMBINATIONAL = ("", "combinational", "combinational_rise", "combinational_fall")


class NoPowerError(ValueError):
    """A library cannot be used for energies; the text says why."""


@dataclass(frozen=True)
class Table:
    """Values over the input's transition, the output's load, or both; linear between them, and beyond them, too."""

    slews: tuple[float, ...]
    loads: tuple[float, ...]
    """Places of the values, ascending; a single place: values do not depend on it."""
    rows: tuple[tuple[float, ...], ...]
    """A row of values for each slew, with a value for each load."""

    def __call__(self, slew: float, load: float) -> float:
        """Return the value at a slew and a load, in the library's units."""
        row, across = _place(self.slews, slew)
        column, along = _place(self.loads, load)
        return _between([_between(values, column, along) for values in self.rows[row : row + 2]], 0, across)


def _place(axis: tuple[float, ...], at: float) -> tuple[int, float]:
    """Return the interval of a value on an axis, and the value's place in it."""
    if len(axis) == 1:
        return 0, 0.0
    low = min(max(bisect_right(axis, at) - 1, 0), len(axis) - 2)
    return low, (at - axis[low]) / (axis[low + 1] - axis[low])


def _between(row: Sequence[float], column: int, along: float) -> float:
    return row[0] if len(row) == 1 else row[column] + along * (row[column + 1] - row[column])


@dataclass(frozen=True)
class Arc:
    """The way of a transition from an input to an output."""

    pin: str
    """Name of the input."""
    edges: tuple[tuple[int, int], ...]
    """Pairs of an input's and an output's edge, 1 for a rising one."""
    delays: tuple[Table | None, Table | None]
    slews: tuple[Table | None, Table | None]
    """Tables for the output's falling and rising edge; ``None`` if there is no such edge."""


@dataclass(frozen=True)
class Power:
    """Energy that a transition takes within a cell."""

    pin: str
    """The input that caused an output's transition; empty for transitions of inputs."""
    when: str
    """The condition of the cell's other pins; empty: none."""
    supply: str
    """Supply that gives the energy; groups of several supplies add up."""
    energies: tuple[Table | None, Table | None]
    """Tables for the falling and for the rising edge."""


@dataclass(frozen=True)
class Pin:
    """A pin of a cell."""

    name: str
    """Its name."""
    capacitances: tuple[float, float]
    """Capacitances at the falling and at the rising edge, in the library's unit."""
    function: str = ""
    """Function of an output, of inputs or stored bits."""
    arcs: tuple[Arc, ...] = ()
    powers: tuple[Power, ...] = ()
    """Ways by which its transitions come about, and their energies."""


@dataclass(frozen=True)
class LibertyCell:
    """A cell of a library, with the energies of its transitions."""

    name: str
    """Its name."""
    inputs: tuple[Pin, ...]
    outputs: tuple[Pin, ...]
    """Its pins."""
    clock: str = ""
    """Pin of a flip-flop at whose rising edge it stores."""
    next_state: str = ""
    """Function of the bit that it stores then."""
    stored: tuple[str, ...] = ()
    """Names of the stored bit, and of its inverse, in functions."""
    quiet: tuple[str, ...] = ()
    """Conditions that must not hold: an asynchronous reset's."""
    refused: str = ""
    """Reason why it cannot be simulated; empty if it can."""


@dataclass(frozen=True)
class LibertyCells:
    """A library's cells."""

    name: str
    """Name of the library."""
    supply: float
    """Supply in volts."""
    unit: float
    """Picojoules of an inner energy of 1."""
    picofarads: float
    """Picofarads of a capacitance of 1."""
    nanoseconds: float
    """Nanoseconds of a time of 1."""
    cells: Mapping[str, LibertyCell] = field(repr=False)


@lru_cache(maxsize=8)
def read_cells(library: Library) -> LibertyCells:
    """Return the cells of a library, with delays and energies."""
    [top] = parse_groups(library.text.decode("latin-1"), library.name)
    supply, volts = _supply(top), _unit(top.attributes.get("voltage_unit", "1V"), "V")
    size, scale = (*top.lists.get("capacitive_load_unit", ["1", "pf"]), "pf")[:2]
    picofarads = float(size) * {"ff": 1e-3, "pf": 1.0}[scale.lower()]
    templates = {entry.name: entry for entry in top.groups if entry.kind in ("lu_table_template", "power_lut_template")}
    cells = [group for group in top.groups if group.kind == "cell"]
    by_name = {cell.name: _cell(cell, top, templates) for cell in cells}
    if not any(power for cell in by_name.values() for pin in cell.outputs for power in pin.powers):
        raise NoPowerError(f"{library.name} has no tables of energies (internal_power)")
    made = LibertyCells(
        library.name,
        supply * volts,
        picofarads * volts**2,
        picofarads,
        1e9 * _unit(top.attributes.get("time_unit", "1ns"), "s"),
        by_name,
    )
    _check(made)
    return made


def _check(cells: LibertyCells) -> None:
    """Refuse libraries that cannot be right: inverters that gain energy, or take a thousand times what they charge."""
    for cell in cells.cells.values():
        if len(cell.inputs) != 1 or len(cell.outputs) != 1 or not cell.outputs[0].powers or cell.refused:
            continue
        [taken] = cell.outputs[0].powers[:1]
        load = max(cell.inputs[0].capacitances)
        inner = sum(table(0.05, load) for table in taken.energies if table is not None) * cells.unit
        charge = load * cells.picofarads * cells.supply**2
        if not -0.01 * charge <= inner <= 1000 * charge:
            raise NoPowerError(
                f"{cells.name} says that {cell.name} takes {inner:.3g} pJ to rise and fall, beside {charge:.3g} pJ for "
                "a gate of its size: that cannot be"
            )


def _supply(top: Group) -> float:
    """Return the supply in the library's unit."""
    conditions = [group for group in top.groups if group.kind == "operating_conditions"]
    chosen = top.attributes.get("default_operating_conditions")
    groups = [group for group in conditions if group.name == chosen] or conditions
    text = groups[0].attributes.get("voltage") if groups else top.attributes.get("nom_voltage")
    if text is None:
        raise NoPowerError(f"{top.name} does not say its supply (operating_conditions, nom_voltage)")
    return float(text)


def _unit(text: str, unit: str) -> float:
    """Return a unit such as ``10ps`` in volts or seconds."""
    prefixes = {"": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}
    number = text.strip().removesuffix(unit)
    prefix = number[-1:] if number[-1:].isalpha() else ""
    return float(number.removesuffix(prefix) or 1) * prefixes[prefix]


def _cell(group: Group, top: Group, templates: Mapping[str, Group]) -> LibertyCell:
    pins = [child for child in group.groups if child.kind == "pin"]
    inputs, outputs = [], []
    for child in pins:
        made = _pin(child, top, templates)
        if child.attributes.get("direction") == "input":
            inputs.append(made)
        else:
            outputs.append(made)
    kept = [child for child in group.groups if child.kind == "ff"]
    others = [child for child in group.groups if child.kind in ("latch", "statetable", "ff_bank", "latch_bank")]
    stores = kept[0].attributes if kept else {}
    clock = stores.get("clocked_on", "").strip("() ")
    refused = ""
    if others or any(child.kind == "bus" for child in group.groups):
        refused = "it is a latch, or stores in another way than a flip-flop"
    elif any("three_state" in child.attributes for child in pins):
        refused = "it drives z"
    elif len(inputs) + len(kept) > MOST_PINS:
        refused = f"it has more than {MOST_PINS} inputs"
    elif kept and clock not in {pin.name for pin in inputs}:
        refused = "its clock is not the rising edge of a pin"
    return LibertyCell(
        group.name,
        tuple(inputs),
        tuple(outputs),
        clock,
        stores.get("next_state", ""),
        tuple(kept[0].names) if kept else (),
        tuple(stores[name] for name in ("clear", "preset") if name in stores),
        refused,
    )


def _pin(group: Group, top: Group, templates: Mapping[str, Group]) -> Pin:
    attributes = group.attributes
    default = attributes.get("capacitance", top.attributes.get("default_input_pin_cap", "0"))
    fall, rise = (float(attributes.get(f"{edge}_capacitance", default)) for edge in ("fall", "rise"))
    powers = [child for child in group.groups if child.kind == "internal_power"]
    return Pin(
        group.name,
        (fall, rise),
        attributes.get("function", ""),
        tuple(arc for child in group.groups if child.kind == "timing" for arc in _arcs(child, templates)),
        tuple(power for child in powers for power in _powers(child, templates)),
    )


_SENSES = ("positive_unate", "negative_unate", "non_unate")


def _arcs(group: Group, templates: Mapping[str, Group]) -> Iterable[Arc]:
    kind, sense = group.attributes.get("timing_type", ""), group.attributes.get("timing_sense", "non_unate")
    if kind in _CLOCKED:
        edges: tuple[tuple[int, int], ...] = ((1, 0), (1, 1))
    elif kind in _COMBINATIONAL:
        if sense not in _SENSES:
            raise ValueError(f"liberty must have a timing_sense of {', '.join(_SENSES)}, not {sense!r}")
        edges = {
            "positive_unate": ((0, 0), (1, 1)),
            "negative_unate": ((1, 0), (0, 1)),
            "non_unate": ((0, 0), (0, 1), (1, 0), (1, 1)),
        }[sense]
    else:
        return
    delays = tuple(_table(group, name, templates) for name in ("cell_fall", "cell_rise"))
    slews = tuple(_table(group, name, templates) for name in ("fall_transition", "rise_transition"))
    edges = tuple(pair for pair in edges if delays[pair[1]] is not None)
    for pin in group.attributes.get("related_pin", "").split():
        yield Arc(pin, edges, (delays[0], delays[1]), (slews[0], slews[1]))


def _powers(group: Group, templates: Mapping[str, Group]) -> Iterable[Power]:
    energies = tuple(_table(group, name, templates) for name in ("fall_power", "rise_power"))
    both = _table(group, "power", templates)
    tables = tuple(table if table is not None else both for table in energies)
    attributes = group.attributes
    for pin in attributes.get("related_pin", "").split() or [""]:
        yield Power(pin, attributes.get("when", ""), attributes.get("related_pg_pin", ""), (tables[0], tables[1]))


def _table(group: Group, kind: str, templates: Mapping[str, Group]) -> Table | None:
    """Return a table of a group, whatever the order of its axes."""
    child = next((entry for entry in group.groups if entry.kind == kind), None)
    if child is None or "values" not in child.lists:
        return None
    numbers = [[float(entry) for entry in row.replace(",", " ").split()] for row in child.lists["values"]]
    template = templates.get(child.name)
    if template is None:  # scalar
        return Table((0.0,), (0.0,), ((numbers[0][0],),))
    axes: dict[str, tuple[float, ...]] = {}
    for number in (1, 2):
        variable = template.attributes.get(f"variable_{number}")
        if variable is not None:
            given = child.lists.get(f"index_{number}") or template.lists.get(f"index_{number}")
            if not given:
                raise ValueError(f"liberty must have index_{number} of the table {child.name!r}, or of its template")
            text = given[0]
            axes[variable] = tuple(float(entry) for entry in text.replace(",", " ").split())
    flat = [entry for row in numbers for entry in row]
    slew = next((name for name in axes if "transition" in name), None)
    load = next((name for name in axes if "capacitance" in name), None)
    slews, loads = axes.get(slew or "", (0.0,)), axes.get(load or "", (0.0,))
    if len(flat) != len(slews) * len(loads):
        raise NoPowerError(f"a table {kind} has {len(flat)} values for {len(slews)} times {len(loads)} places")
    first = next(iter(axes), None)
    if first == load and slew is not None:  # a row for each load
        flat = [flat[column * len(slews) + row] for row in range(len(slews)) for column in range(len(loads))]
    rows = tuple(tuple(flat[row * len(loads) :][: len(loads)]) for row in range(len(slews)))
    return Table(slews, loads, rows)


@lru_cache(maxsize=4096)
def truth(function: str, names: tuple[str, ...]) -> tuple[bool, ...]:
    """Return a function's values over all levels of some pins, the first of which is the lowest bit of an index."""
    levels = itertools.product((False, True), repeat=len(names))
    return tuple(bool(evaluate(function, dict(zip(names[::-1], state, strict=True)))) for state in levels)
