"""Targets of mapping: generic gates, cell libraries, FPGAs; and the tool that measures delays."""
