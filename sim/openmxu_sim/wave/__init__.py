"""The wavefront of a real run: the tile that each processing element multiplies in each cycle, as picture or page."""

from openmxu_sim.wave.activity import MOST_CELLS, MOST_CYCLES, Activity
from openmxu_sim.wave.page import (
    MOST_SIDE,
    SIZES,
    Given,
    Record,
    find_shipped,
    has_zig,
    heat_page,
    live_page,
    random_run,
    record_run,
)
from openmxu_sim.wave.picture import draw
from openmxu_sim.wave.watch import default_sizes, observe, product

__all__ = [
    "MOST_CELLS",
    "MOST_CYCLES",
    "MOST_SIDE",
    "SIZES",
    "Activity",
    "Given",
    "Record",
    "default_sizes",
    "draw",
    "find_shipped",
    "has_zig",
    "heat_page",
    "live_page",
    "observe",
    "product",
    "random_run",
    "record_run",
]
