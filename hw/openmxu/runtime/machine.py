"""The machine that this runs on."""

import functools
import os
import platform


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
