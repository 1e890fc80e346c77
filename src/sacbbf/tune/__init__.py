"""Tuning: settings that are better than the preset's, found by trials and confirmed on fresh seeds."""
