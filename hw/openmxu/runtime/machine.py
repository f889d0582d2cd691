"""The machine that this runs on, and records of what was measured there."""

import functools
import json
import os
import platform
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, Self, get_args, get_origin, get_type_hints


def cores() -> int:
    """Processors that this process may run on."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def _cpuinfo() -> tuple[str, ...]:
    """Lines of Linux's ``/proc/cpuinfo`` about the first processor; empty on other systems."""
    try:
        with open("/proc/cpuinfo") as file:
            return tuple(file.read(1 << 14).partition("\n\n")[0].splitlines())
    except OSError:
        return ()


def processor() -> str:
    """The processor with its instruction sets, for the key of a program that is compiled for this one only."""
    same = [line for line in _cpuinfo() if "mhz" not in line.lower() and "bogomips" not in line.lower()]
    return "\n".join([platform.machine(), *(same or platform.uname())])


def processor_name() -> str:
    """The processor's own name."""
    named = (line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def machine_name() -> str:
    """The processor's name and its number of cores."""
    return f"{processor_name()}, {os.cpu_count()} cores"


def tool_version(name: str, version: str) -> str:
    """A tool's name and version; a name with which the version begins is not repeated."""
    return version if version.lower().startswith(name.lower()) else f"{name} {version}"


@dataclass(frozen=True)
class Record:
    """Figures that are kept as JSON; its subclasses are dataclasses of what :func:`of_plain` reads."""

    def to_json(self) -> str:
        """The fields as JSON, in their order."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def of_json(cls, text: str) -> Self:
        """The record that :meth:`to_json` wrote."""
        record: Self = of_plain(cls, json.loads(text))
        return record


def of_plain(kind: Any, plain: Any) -> Any:
    """JSON's data as a dataclass, a named tuple, or a tuple of many such; anything else stays as it is."""
    if get_origin(kind) is tuple:
        return tuple(of_plain(get_args(kind)[0], each) for each in plain)
    if is_dataclass(kind):
        kinds = get_type_hints(kind)
        return kind(**{name: of_plain(kinds.get(name), value) for name, value in plain.items()})  # type: ignore[operator]
    if isinstance(kind, type) and issubclass(kind, tuple):
        return kind(*map(of_plain, get_type_hints(kind).values(), plain))
    return plain
