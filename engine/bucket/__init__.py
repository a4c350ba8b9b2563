"""Bucket: an object store behind the data directory. What is shipped there outlives the machine."""
