"""What follows from results: costs, ratios, fronts, fits, comparisons."""
