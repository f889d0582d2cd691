"""A design's netlist of a library's cells, in the order and under names that do not change from run to run."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from openmxu import yosys
from openmxu.area.target.targets import choose_targets
from openmxu.cells.liberty import Library
from openmxu.export.names import check_name
from openmxu.yosys.netlist import Bit, Netlist, read_netlist
from openmxu_layout.kit import Kit
from openmxu_layout.placed import Pins


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
    origins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The design's names of nets, where these are not the net's own."""


def script(library: Library, top: str, kit: Kit, unused: Iterable[str]) -> str:
    """The Yosys script: the area report's recipe, without unused cells, with memories as flip-flops and tie cells.

    Registers stay as they are described, states with their codes and addresses before memories, so that a proof finds
    each.
    """
    [target] = choose_targets([], [library], ["area"])
    recipe = target.script.replace("synth -flatten", "synth -nofsm -nordff -flatten")
    omitted = "".join(f" -dont_use {cell}" for cell in [*kit.unused, *unused])
    steps = recipe.format(top=top, change="")
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


def synthesise(
    rtlil: str, top: str, library: Library, kit: Kit, unused: Iterable[str] = (), supplies: Container[str] = ()
) -> Mapped:
    """Map a design to a library's cells, without those that are unused by the kit or otherwise."""
    text = yosys.produce(script(library, top, kit, unused), rtlil, libraries={"cells.lib": library.text})
    return read_mapped(text, top, kit, supplies)


def read_mapped(text: str, top: str, kit: Kit, supplies: Container[str] = ()) -> Mapped:
    """The netlist in Yosys's JSON; an output that is an input, or another output, gets a buffer.

    Nets within keep names that Verilog, SPEF and DEF can have; ports with others are refused.
    """
    netlist = read_netlist(text, top)
    check_ports(netlist, supplies)
    instances: dict[str, str] = {}
    pins: dict[Bit, list[tuple[str, str]]] = {}
    taken = {name for _, name in netlist.bit_names(netlist.nets)}
    for number, cell in enumerate(netlist.cells):
        name = instance_name(f"u{number}", taken)
        instances[name] = cell.type
        for pin, [bit] in cell.connections.items():
            ends = pins.setdefault(bit, [])
            ends.insert(len(ends) if pin in cell.inputs else 0, (name, pin))
    names: dict[Bit, str] = {}
    ports = {}
    for direction, buses in (("input", netlist.inputs), ("output", netlist.outputs)):
        for bit, port in netlist.bit_names(buses):
            ports[port] = direction
            if names.setdefault(bit, port) != port:
                name = instance_name(f"b{len(instances)}", taken)
                instances[name] = kit.buffer.cell
                pins.setdefault(bit, []).append((name, kit.buffer.input))
                pins[port] = [(name, kit.buffer.output)]
                names[port] = port
    origins: dict[Bit, list[str]] = {}
    used = {*ports}
    for bit, name in netlist.bit_names(netlist.nets):
        origins.setdefault(bit, []).append(name)
        if bit not in names and name not in used and name not in supplies and re.fullmatch(_PLAIN, name, re.ASCII):
            names[bit] = name
            used.add(name)
    nets = {names.get(bit, f"${bit}"): tuple(ends) for bit, ends in pins.items()}
    called = {names.get(bit, f"${bit}"): tuple(its) for bit, its in origins.items() if its != [names.get(bit)]}
    return Mapped(top, instances, dict.fromkeys(ports, ()) | nets, ports, called)


_PLAIN = r"[A-Za-z_][\w.$\[\]]*"
"""Names of nets that no file has to escape but as Verilog and SPEF do."""


def check_ports(netlist: Netlist, supplies: Container[str]) -> None:
    """Refuse ports whose names Verilog, SPEF and DEF would each escape in a way of its own, or that supplies have."""
    for name in (*netlist.inputs, *netlist.outputs):
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ValueError(f"ports must have names of letters, digits and _ in a layout, not {name!r}")
        check_name("ports", name)
        if name in supplies:
            raise ValueError(f"ports must have other names than the supplies, not {name!r}")
        if min(netlist.indices.get(name, (0,))) < 0:
            raise ValueError(f"ports must have indices from 0 up in a layout, not as {name!r} has")


def instance_name(name: str, nets: Container[str]) -> str:
    """The name, or a longer one where a net has it: in Verilog no two things share one."""
    while name in nets:
        name += "_"
    return name
