"""Waiting: reads that block in this gateway until something comes at the servers."""
