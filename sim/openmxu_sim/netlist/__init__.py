"""Netlists as machine code: what synthesis made of a design, run on this machine."""
