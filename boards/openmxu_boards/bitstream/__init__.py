"""From a board to its bitstream: the design on top, the flow through Yosys and nextpnr, and what they report."""
