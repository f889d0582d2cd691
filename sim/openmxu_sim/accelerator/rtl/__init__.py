"""The simulated accelerator's C text: the host, the bus, and the parts that are vector code."""
