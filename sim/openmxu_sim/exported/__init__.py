"""Benches that are written beside an exported unit, to start from: ``openmxu verilog --bench``.

::

    golden ──▶ beats ──▶ weights.hex, activations.hex, results.hex ──▶ a bench that plays and compares them,
                                                                       in Verilog or in Python on cocotb

They are texts for people to go on with, without this project: templates (``*.in``), filled in.
"""
