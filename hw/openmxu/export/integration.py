"""Aids to put an exported module into a design: instantiation templates and a FuseSoC core file."""

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from amaranth.hdl import Value
from amaranth.lib import data
from amaranth.lib.wiring import Out

from openmxu.export.names import PORTS, check_vhdl_name


class _Port(NamedTuple):
    """A port of the exported module; ``flow`` is ``"input"`` or ``"output"``, ``fields`` a comment."""

    name: str
    width: int
    flow: str
    fields: str = ""


def to_template(component: Any, text: str, *, name: str, ports: str = "nested") -> str:
    """Verilog to copy from: a wire for each port, fields of payloads in comments, and the instance."""
    pins = _ports(component, text, name, ports)
    wires = [
        f"wire {f'[{port.width - 1}:0] ' if port.width > 1 else ''}{port.name};  // {port.flow}"
        f"{port.fields and ': '}{port.fields}"
        for port in pins
    ]
    connections = [f"  .{port.name}({port.name})" for port in pins]
    return "\n".join([*wires, "", f"{name} {name}_0 (", ",\n".join(connections), ");", ""])


def to_vhdl_template(component: Any, text: str, *, name: str, ports: str = "flat") -> str:
    """VHDL-93 to copy from: the component, a signal for each port, and the instance, in an architecture around them.

    Parameters are those of :func:`to_template`.
    """
    check_vhdl_name("name", name)
    pins = _ports(component, text, name, ports)
    for port in pins:
        if "__" in port.name:
            raise ValueError(f"ports must be 'flat' for a template in VHDL, which cannot name {port.name}")
        check_vhdl_name("port", port.name)
    types = {port: f"std_logic_vector({port.width - 1} downto 0)" if port.width > 1 else "std_logic" for port in pins}
    declared = [f"      {port.name} : {'out' if port.flow == 'output' else 'in'} {types[port]}" for port in pins]
    return "\n".join(
        [
            "library ieee;",
            "use ieee.std_logic_1164.all;",
            "",
            f"entity {name}_template is",
            "end entity;",
            "",
            f"architecture template of {name}_template is",
            f"  component {name}",
            "    port (",
            ";\n".join(declared),
            "    );",
            "  end component;",
            "",
            *(f"  signal {port.name} : {types[port]};{port.fields and f'  -- {port.fields}'}" for port in pins),
            "begin",
            f"  {name}_0 : {name}",
            "    port map (",
            ",\n".join(f"      {port.name} => {port.name}" for port in pins),
            "    );",
            "end architecture;",
            "",
        ]
    )


def _ports(component: Any, text: str, name: str, ports: str) -> list[_Port]:
    """Clock, reset and clock enable, if the module has them, and the component's members."""
    header = text[text.rindex(f"\nmodule {name}(") :].partition(";")[0]
    pins = [
        _Port(port, 1, "input") for port in ("clk", "rst", "clk_en", "aclken") if re.search(rf"[( ]{port}[,)]", header)
    ]
    for path, member, value in component.signature.flatten(component):
        flow = "output" if member.flow == Out else "input"
        pins.append(_Port(PORTS[ports].join(map(str, path)), len(Value.cast(value)), flow, _fields(member.shape)))
    return pins


def _fields(shape: Any) -> str:
    """Bit positions of a structure's fields, in words."""
    if not isinstance(shape, data.Layout):
        return ""
    positions = []
    for name, field in shape:
        words = ""
        if isinstance(field.shape, data.ArrayLayout):
            words = f", {field.shape.length} words, the first lowest"
        high = field.offset + field.width - 1
        positions.append(f"[{f'{high}:' if field.width > 1 else ''}{field.offset}] {name}{words}")
    return "; ".join(positions)


class CoreBench(NamedTuple):
    """The description of a bench in a core file."""

    sources: Sequence[str]
    """Its Verilog files, as seen from the core file."""
    data: Sequence[str]
    """Files that are copied to the folder where it runs."""
    toplevel: str
    """Name of its module."""


def to_core(file: str, *, name: str, bench: CoreBench | None = None) -> str:
    """A FuseSoC core file (CAPI 2, with flows) for an exported module."""
    filesets, targets = (_BENCH_FILES, _BENCH_TARGETS) if bench else ("", "")
    texts = (
        {
            "sources": "\n".join(f"      - {source}" for source in bench.sources),
            "data": "\n".join(f"      - {path}: {{copyto: {path}}}" for path in bench.data),
            "toplevel": bench.toplevel,
        }
        if bench
        else {}
    )
    return f"""\
CAPI=2:
name: openmxu::{name}:{version("openmxu")}
description: A bf16 matrix unit, written by OpenMXU
filesets:
  rtl:
    files:
      - {file}
    file_type: verilogSource
{filesets.format(**texts)}\
targets:
  default:
    filesets: [rtl]
    toplevel: {name}
  lint:
    flow: lint
    flow_options:
      tool: verilator
      verilator_options: [-Wall]
    filesets: [rtl]
    toplevel: {name}
{targets.format(**texts)}\
"""


_BENCH_FILES = """\
  bench:
    files:
{sources}
    file_type: verilogSource
  beats:
    files:
{data}
    file_type: user
parameters:
  seed:
    datatype: int
    description: Other pauses
    paramtype: plusarg
  stalls:
    datatype: int
    description: 0 for no pauses
    paramtype: plusarg
"""

# The bench comes first: it has the time scale. Verilator 5.006 does not know WIDTHEXPAND, and says WIDTH instead.
_BENCH_TARGETS = """\
  sim:
    flow: sim
    flow_options:
      tool: icarus
      iverilog_options: [-g2005]
    filesets: [bench, rtl, beats]
    parameters: [seed, stalls]
    toplevel: {toplevel}
  sim_verilator:
    flow: sim
    flow_options:
      tool: verilator
      mode: binary
      verilator_options: [--timing, --output-split, "0", -CFLAGS, -std=c++20, -Wfuture-WIDTHEXPAND, -Wno-WIDTH]
    filesets: [bench, rtl, beats]
    parameters: [seed, stalls]
    toplevel: {toplevel}
"""
