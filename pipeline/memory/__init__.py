"""Jobs without Spark, with Arrow, for entries that fit into memory."""
