"""Extents: the cold entries of a stream, of which memory keeps an index."""
