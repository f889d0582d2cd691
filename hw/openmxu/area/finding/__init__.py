"""Findings from results: costs, ratios, fronts, fits, comparisons."""
