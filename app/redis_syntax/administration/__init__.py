"""Administration: commands about the server itself, and not about streams."""
