"""Cost of number formats in layouts: cores, wires, delays and energies of elements, with several seeds each.

::

    wired         a layout as a netlist whose energies can be measured: wires and clock trees as loads
    laying        each design laid out as densely as wires allow, checked and measured
    formats       the record, and its tables
"""
