"""What helps to put an exported module into a design: an instantiation template and a FuseSoC core file."""

import re
from importlib.metadata import version
from typing import Any

from amaranth.hdl import Value
from amaranth.lib import data
from amaranth.lib.wiring import Out

__all__ = ["to_core", "to_template"]


def to_template(component: Any, text: str, *, name: str) -> str:
    """Verilog to copy from: a wire for each port, fields of payloads in comments, and the instance.

    Parameters
    ----------
    component
        Any component of this package.
    text
        Its Verilog.
    name
        Name of its module.
    """
    header = text[text.rindex(f"\nmodule {name}("):].partition(";")[0]
    ports = [(port, 1, "input", "") for port in ("clk", "rst") if re.search(rf"[( ]{port}[,)]", header)]
    for path, member, value in component.signature.flatten(component):
        flow = "output" if member.flow == Out else "input"
        ports.append(("__".join(map(str, path)), len(Value.cast(value)), flow, _fields(member.shape)))
    wires = [f"wire {f'[{width - 1}:0] ' if width > 1 else ''}{port};  // {flow}{fields}"
             for port, width, flow, fields in ports]
    connections = [f"  .{port}({port})" for port, *_ in ports]
    return "\n".join([*wires, "", f"{name} {name}_0 (", ",\n".join(connections), ");", ""])


def _fields(shape: Any) -> str:
    """Where the fields of a structure are, in words."""
    if not isinstance(shape, data.Layout):
        return ""
    found = []
    for name, field in shape:
        words = ""
        if isinstance(field.shape, data.ArrayLayout):
            words = f", {field.shape.length} words, the first lowest"
        high = field.offset + field.width - 1
        found.append(f"[{f'{high}:' if field.width > 1 else ''}{field.offset}] {name}{words}")
    return ": " + "; ".join(found)


def to_core(file: str, *, name: str) -> str:
    """A FuseSoC core file (CAPI 2) for an exported module.

    Parameters
    ----------
    file
        The Verilog file, as seen from the core file.
    name
        Name of the module in it.
    """
    return f"""\
CAPI=2:
name: openmxu::{name}:{version("openmxu")}
description: A bf16 matrix unit, written by OpenMXU
filesets:
  rtl:
    files:
      - {file}
    file_type: verilogSource
targets:
  default:
    filesets: [rtl]
    toplevel: {name}
  lint:
    default_tool: verilator
    filesets: [rtl]
    toplevel: {name}
    tools:
      verilator:
        mode: lint-only
"""
