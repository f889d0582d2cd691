"""What is measured: parts of the unit with all their parameters, designs of the catalog, and designs of others."""
