"""Reads that block in this gateway until something arrives at the servers."""
