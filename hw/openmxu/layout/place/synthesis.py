"""A design's netlist of a library's cells, in the order and under names that do not change from run to run."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from openmxu import yosys
from openmxu.area.target.liberty import Library
from openmxu.area.target.targets import choose_targets
from openmxu.layout.kit import Kit
from openmxu.layout.placed import Pins
from openmxu.yosys.netlist import Bit, read_netlist


@dataclass(frozen=True)
class Mapped:
    """A netlist of cells. A net has at most one port, of the same name; a bus has a port for each bit."""

    name: str
    instances: Mapping[str, str]
    """The cell of each instance."""
    nets: Mapping[str, Pins]
    """What drives a net comes first, unless it is a port."""
    ports: Mapping[str, str]
    """``"input"`` or ``"output"``, by name."""


def script(library: Library, top: str, kit: Kit, unused: Iterable[str]) -> str:
    """The Yosys script: the area report's recipe, without unused cells, with memories as flip-flops and tie cells."""
    [target] = choose_targets([], [library], ["area"])
    omitted = "".join(f" -dont_use {cell}" for cell in [*kit.unused, *unused])
    steps = target.script.format(top=top, change="")
    for step, changed in (
        ("memory_map -rom-only", "memory_map"),
        ("dfflibmap", f"dfflibmap{omitted}"),
        ("abc -liberty", f"abc{omitted} -liberty"),
    ):
        if steps.count(f"\n{step}") != 1:
            raise AssertionError(f"the recipe must have one step {step}")
        steps = steps.replace(f"\n{step}", f"\n{changed}")
    return f"""\
{steps}
setattr -mod -unset keep_hierarchy *
flatten
setundef -zero
opt_clean -purge
hilomap -singleton -hicell {" ".join(kit.tie_high)} -locell {" ".join(kit.tie_low)}
opt_clean -purge
check -assert
write_json /job/result
"""


def synthesise(rtlil: str, top: str, library: Library, kit: Kit, unused: Iterable[str] = ()) -> Mapped:
    """Map a design to a library's cells, without those that are unused by the kit or otherwise."""
    text = yosys.produce(script(library, top, kit, unused), rtlil, libraries={"cells.lib": library.text})
    return read_mapped(text, top, kit)


def read_mapped(text: str, top: str, kit: Kit) -> Mapped:
    """The netlist in Yosys's JSON; an output that is an input, or another output, gets a buffer.

    Ports whose names Verilog, SPEF and DEF would each escape in a way of its own are refused.
    """
    netlist = read_netlist(text, top)
    instances: dict[str, str] = {}
    pins: dict[Bit, list[tuple[str, str]]] = {}
    for number, cell in enumerate(netlist.cells):
        instances[f"u{number}"] = cell.type
        for pin, [bit] in cell.connections.items():
            ends = pins.setdefault(bit, [])
            ends.insert(len(ends) if pin in cell.inputs else 0, (f"u{number}", pin))
    names: dict[Bit, str] = {}
    ports = {}
    for direction, buses in (("input", netlist.inputs), ("output", netlist.outputs)):
        for name in buses:
            if not re.fullmatch(r"[A-Za-z_]\w*(\[\d+\])?", name, re.ASCII):
                raise ValueError(f"ports must have names of letters, digits and _ in a layout, not {name!r}")
        for bit, port in bit_names(buses):
            ports[port] = direction
            if names.setdefault(bit, port) != port:
                name = f"b{len(instances)}"
                instances[name] = kit.buffer.cell
                pins.setdefault(bit, []).append((name, kit.buffer.input))
                pins[port] = [(name, kit.buffer.output)]
                names[port] = port
    taken = {*ports}
    for bit, name in bit_names(netlist.nets):
        if bit not in names and name not in taken:
            names[bit] = name
            taken.add(name)
    nets = {names.get(bit, f"${bit}"): tuple(ends) for bit, ends in pins.items()}
    return Mapped(top, instances, dict.fromkeys(ports, ()) | nets, ports)


def bit_names(buses: Mapping[str, Sequence[Bit]]) -> Iterator[tuple[Bit, str]]:
    """Each bit of named nets with its name; those that Yosys has named are left out."""
    for name, bits in buses.items():
        if not name.startswith(("$", "\\")):
            for index, bit in enumerate(bits):
                yield bit, f"{name}[{index}]" if len(bits) > 1 else name
