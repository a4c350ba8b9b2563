"""Streams in bulk on Spark: a data source, a lake, and jobs. Speaks HTTP to the gateway."""
