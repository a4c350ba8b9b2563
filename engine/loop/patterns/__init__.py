"""Patterns: who follows all streams whose names match, and which of them an append concerns."""
