"""Boards and the devices on them: targets, families, clocks, platforms."""
