"""The command line's frame: its process, its signals, its terminal, and the common parts of its commands."""
