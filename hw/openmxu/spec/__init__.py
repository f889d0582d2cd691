"""The specification of a unit: number formats, sizes, stages, passes, and the tiles of a product."""
