"""Energy of mapped netlists, glitches included: what ``openmxu area --energy`` reports.

::

    point ─▶ Yosys ─▶ netlist ─┐
    Liberty ─▶ cells ──────────┴▶ loads, slews, delays, energies of each transition ─▶ events in C ─▶ joules
    golden ─▶ operands and results ───────────────────────────────────────────────────────┘
                                                     (a netlist that gives other bits has no figure)
"""
