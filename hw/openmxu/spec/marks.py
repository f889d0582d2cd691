"""The marks of an activation beat, a bit each."""

TILE_MARKS = ("add", "clear_nan", "emit", "keep")
"""Marks of the tile: constant within a tile."""

MARKS = ("first", "last", *TILE_MARKS)
"""All marks, in the order of their bits; see :class:`openmxu.unit.edge.ActivationBeat`."""
