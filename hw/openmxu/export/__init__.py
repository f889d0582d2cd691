"""From a design to files: Verilog and RTLIL, names of ports, templates, memories, benches."""
