"""What this machine is, and how it is asked to compute: processor, allocator, denormals."""
