"""Extents in files: their format, and the way of sealed chunks into them."""
