"""The wavefront as a picture: which processing element multiplies what when, in a real run of the unit."""

from openmxu_sim.wave.activity import MOST_CELLS, MOST_CYCLES, Activity, default_sizes, observe, product
from openmxu_sim.wave.picture import draw

__all__ = ["MOST_CELLS", "MOST_CYCLES", "Activity", "default_sizes", "draw", "observe", "product"]
