"""What designs are mapped to: generic gates, cell libraries, FPGAs, and what tells delays."""
