"""Inputs of units: vectors, stimuli, matrices of files and frameworks, parts for several passes."""
