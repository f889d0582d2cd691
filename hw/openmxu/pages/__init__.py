"""What reports of all packages are made of: tables, documents, figures."""
