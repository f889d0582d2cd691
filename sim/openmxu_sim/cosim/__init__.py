"""Verilog simulators, driven by cocotb.

Outside of a simulator, without cocotb being imported:

=================  =====================================================================================
``simulators``     the simulators that are installed, and what is missing
``build``          Verilog text into a compiled simulation, cached
``runner``         a cocotb module on a compiled simulation
=================  =====================================================================================

Inside of one, the kit that test benches are made of:

=================  =====================================================================================
``clocking``       clock, reset, and a limit on how long a test bench waits
``stream``         source and sink of a stream, with random pauses
``scoreboard``     expected beats, compared in order and bit for bit
``rigid``          operands into a component without handshake, one set per cycle
=================  =====================================================================================
"""
