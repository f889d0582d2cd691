"""The matrix unit: processing elements in an array, admission before it, accumulators behind it, and AXI around it."""
