"""Wires of a placed design, and the straps of its supplies."""
