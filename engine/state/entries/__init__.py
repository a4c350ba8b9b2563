"""Entries of a stream in memory: the log, its chunks, and what is packed before it is appended."""
