"""From subjects and targets to results: jobs, their schedule, measuring."""
