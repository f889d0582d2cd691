"""The chapters of a report, each from its findings to Markdown."""
