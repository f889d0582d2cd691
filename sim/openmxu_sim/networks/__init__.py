"""Networks on the unit, whatever framework they come from: convolutions, and what layers cost and lose."""
