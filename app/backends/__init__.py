"""The port to what keeps the streams, and what is behind it."""
