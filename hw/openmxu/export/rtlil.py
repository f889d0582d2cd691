"""RTLIL text of Amaranth, and the changes that the Verilog export makes to it.

A module is the lines from ``module`` and its name to ``end``. It declares wires, which may be ports; lists cells,
some of them instances of other modules, and processes; and says at its end what drives the wires that nothing else
drives. Names begin with a backslash and end with a blank or the line.
"""

import re
from collections import Counter
from collections.abc import Callable

MODULE = re.compile(r"^module \\(\S+)\n.*?^end$", re.MULTILINE | re.DOTALL)
"""A module, and its name."""

PORT = re.compile(r"^  wire .*(?:input|output|inout) \d+ +\\(\S+)$", re.MULTILINE)
"""A port, and its name."""

# Names that look like wires and are none: a cell's type and name, and the port of a cell that is connected.
_OF_CELLS = r"^    connect \\\S+|^  cell .*"


def module_names(text: str) -> list[str]:
    """Names of all modules, in their order."""
    return re.findall(r"^module \\(\S+)$", text, re.MULTILINE)


def rename_modules(text: str, rename: Callable[[str], str]) -> str:
    """Change the names of modules, and of their instances alike."""
    renamed: dict[str, str] = {}
    for name in module_names(text):
        if (new := rename(name)) in renamed.values():
            raise ValueError(f"names of modules must differ, and two would be {new!r}")
        renamed[name] = new
    return re.sub(
        r"^(module|  cell) \\(\S+)",
        lambda match: f"{match[1]} \\{renamed.get(match[2], match[2])}",
        text,
        flags=re.MULTILINE,
    )


def join_ports(text: str, name: str, joint: str) -> str:
    """Replace the two underscores in names of a module's ports by ``joint``."""
    [module] = (match for match in MODULE.finditer(text) if match[1] == name)
    ports = PORT.findall(module[0])
    joined = {port: port.replace("__", joint) for port in ports}
    if len({port.lower() for port in joined.values()}) < len(ports):
        raise ValueError(f"ports must differ when joined by {joint!r}, not {', '.join(ports)}")
    # An inner wire that has the name of a new port is renamed.
    taken = {port: f"{port}$inside" for port in set(joined.values()) - set(ports)}
    renamed = taken | joined

    def rename(match: re.Match[str]) -> str:
        return f"\\{renamed[match[1]]}" if match[1] in renamed else match[0]

    body = re.sub(rf"{_OF_CELLS}|\\(\S+)", rename, module[0], flags=re.MULTILINE)
    return text[: module.start()] + body + text[module.end() :]


def prune(text: str) -> str:
    """Leave out wires that nothing reads: other names for a signal, or for a field of it."""
    return MODULE.sub(lambda match: _prune(match[0]), text)


def _prune(module: str) -> str:
    wires = re.sub(_OF_CELLS, "", module, flags=re.MULTILINE)
    count = Counter(re.findall(r"\\(\S+)", wires))
    kept = {*PORT.findall(module), *(name for name, uses in count.items() if uses > 2)}
    driven = set(re.findall(r"^connect \\(\S+) ", module, re.MULTILINE))
    dead = driven - kept

    def leave_out(match: re.Match[str]) -> str:
        return "" if match[1] in dead else match[0]

    module = re.sub(r"^connect \\(\S+) .*\n\n?", leave_out, module, flags=re.MULTILINE)
    return re.sub(r"^(?:  attribute .*\n)*  wire .*\\(\S+)\n\n?", leave_out, module, flags=re.MULTILINE)
