"""Durability: files, records, snapshots, recovery."""
