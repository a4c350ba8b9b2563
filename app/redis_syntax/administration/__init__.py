"""Commands about the server itself, not about streams."""
