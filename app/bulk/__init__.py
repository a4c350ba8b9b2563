"""Entries in bulk: Arrow, JSON in batches, staged chunks."""
