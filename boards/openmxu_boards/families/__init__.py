"""Families of devices, a folder for each: PLL, options and packer of the tools, models of cells, and their reader."""

from typing import Any

from openmxu_boards.families.ecp5 import Ecp5
from openmxu_boards.families.family import Family
from openmxu_boards.families.gatemate import GateMate
from openmxu_boards.families.gowin import Gowin
from openmxu_boards.families.ice40 import Ice40

FAMILIES: tuple[Family, ...] = (Ice40(), Ecp5(), Gowin(), GateMate())
"""All families that bitstreams are built for."""


def family_of(platform: Any) -> Family:
    """The family of a platform's device."""
    for family in FAMILIES:
        if family.covers(platform):
            return family
    names = ", ".join(family.name for family in FAMILIES)
    raise ValueError(f"platform must be for one of {names}, not {type(platform).__name__}")


def with_tools(platform: Any) -> Any:
    """A class of platforms for the present tools."""
    if isinstance(platform, type):
        for family in FAMILIES:
            if issubclass(platform, family.platform):
                return family.with_tools(platform)
    return platform
