"""The machine that something was measured on."""

import os
import platform
from pathlib import Path

__all__ = ["machine_name", "processor_name", "tool_version"]


def processor_name() -> str:
    """What the processor calls itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def machine_name() -> str:
    """The processor and how many of its cores there are."""
    return f"{processor_name()}, {os.cpu_count()} cores"


def tool_version(name: str, version: str) -> str:
    """A tool and its version; some say their own names, which are not said twice."""
    return version if version.lower().startswith(name.lower()) else f"{name} {version}"
