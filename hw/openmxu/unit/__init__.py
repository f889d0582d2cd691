"""The machine: processing elements in an array, admission before it, accumulators behind it, and all of it on AXI."""
