"""Schemas of streams: what they may be, checks of entries, changes, types for clients."""
