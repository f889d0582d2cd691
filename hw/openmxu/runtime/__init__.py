"""What any program needs of the machine it runs on: processes, files, locks, a cache, and where code came from."""
