"""Networks on accelerators of several sizes: cycles, useful share, bytes, and time of simulation.

::

    shapes    networks of published shapes with random weights
    runs      each on the simulated RTL, compared with the definition; others by the unit's formula
    sizes     the record, and its tables
"""
