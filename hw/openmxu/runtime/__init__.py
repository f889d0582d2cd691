"""Services for any program: processes, files, locks, a cache, and the state of the code's source files."""
