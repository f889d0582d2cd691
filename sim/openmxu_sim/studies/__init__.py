"""What the unit is for, in figures: accuracy of products, and layers of real networks against memory bandwidth."""
