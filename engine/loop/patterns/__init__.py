"""Patterns: the followers of all streams whose names match."""
