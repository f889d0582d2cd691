"""The accelerator on a bus: registers, an interrupt, and a manager on AXI4 or Wishbone."""
