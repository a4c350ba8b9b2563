"""Extents for the event loop: they are read beside it, and taken over from a rewrite."""
