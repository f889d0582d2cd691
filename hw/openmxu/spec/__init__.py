"""What a unit is made for: number formats, sizes, stages, passes, and the tiles of a product."""
