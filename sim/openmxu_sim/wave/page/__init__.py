"""The unit in a page of its own: one HTML file that runs it, or shows a recorded run."""

from openmxu_sim.wave.page.c_text import MOST_SIDE, SIZES
from openmxu_sim.wave.page.document import heat_page, live_page
from openmxu_sim.wave.page.machine import Given, Record, random_run
from openmxu_sim.wave.page.shipped import find_shipped
from openmxu_sim.wave.page.shown import record_run
from openmxu_sim.wave.page.wasm import has_zig

__all__ = [
    "MOST_SIDE",
    "SIZES",
    "Given",
    "Record",
    "find_shipped",
    "has_zig",
    "heat_page",
    "live_page",
    "random_run",
    "record_run",
]
