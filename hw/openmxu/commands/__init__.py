"""The commands of this package; entry points name them."""

from openmxu.commands.list_all import add_completion, add_list, sections
from openmxu.commands.manage_cache import add_cache
from openmxu.commands.measure_area import add_area
from openmxu.commands.write_verilog import add_parameters, add_verilog, requested

__all__ = [
    "add_area",
    "add_cache",
    "add_completion",
    "add_list",
    "add_parameters",
    "add_verilog",
    "requested",
    "sections",
]
