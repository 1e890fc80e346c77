"""What a run keeps on disk: whole files or none, data that cannot execute, one writer at a time."""
