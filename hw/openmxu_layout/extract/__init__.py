"""Wires as resistors and capacitors, and the delays that follow from them."""
