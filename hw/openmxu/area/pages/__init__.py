"""Area reports for people and programs: Markdown, HTML, plots, tables, JSON, CSV; comparisons and explanations."""
