"""Patterns: globs for the names of streams, and cursors of all streams that match."""
