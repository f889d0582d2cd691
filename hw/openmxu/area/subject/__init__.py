"""Subjects of measurement: parts of the unit with all parameters, designs of the catalog, and designs of others."""
