"""Group reads: what a consumer of a group receives (XREADGROUP)."""
