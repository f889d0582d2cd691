"""What users have of a process: its files, which they name, and what is known of them."""
