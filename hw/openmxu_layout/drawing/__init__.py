"""Layouts as files that other programs read."""
