"""What jobs do without Spark, with Arrow, where all entries fit into memory."""
