"""From a netlist to a layout: placed cells, wires, masks, and checks of them, in a technology that is data."""
