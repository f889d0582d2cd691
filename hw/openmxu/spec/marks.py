"""What an activation beat says besides its words, a bit each."""

TILE_MARKS = ("add", "clear_nan", "emit", "keep")
"""What it says of its tile: constant within a tile."""

MARKS = ("first", "last", *TILE_MARKS)
"""All of it, in the order of the bits; see :class:`openmxu.unit.edge.ActivationBeat`."""
