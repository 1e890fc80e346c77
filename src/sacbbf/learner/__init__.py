"""Learning: losses, schedules, resets and the update that puts them together."""
