"""Following a stream or a group: event streams and WebSockets."""
