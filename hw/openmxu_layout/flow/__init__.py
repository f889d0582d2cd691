"""From a design to the files of its layout, and the report on it."""
