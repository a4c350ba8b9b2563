"""Streams in bulk on Spark: a data source, a lake, and jobs. Talks HTTP to the gateway."""
