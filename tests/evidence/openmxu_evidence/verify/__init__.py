"""Evidence: exhaustive checks, exploration, mutants, independent oracles, and the command that runs them."""
