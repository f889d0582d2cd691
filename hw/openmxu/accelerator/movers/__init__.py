"""The engines of `load` and `store`: rows on one side, beats and bursts of a bus on the other."""
