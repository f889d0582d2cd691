"""Figures on the use of a unit: accuracy of products, and layers of real networks against memory bandwidth."""
