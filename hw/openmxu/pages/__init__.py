"""Parts of the reports of all packages: tables, documents, figures."""
