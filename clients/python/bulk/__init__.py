"""Reading and writing in bulk: by ranges, as Arrow batches, and exactly once."""
