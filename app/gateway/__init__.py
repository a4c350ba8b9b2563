"""Gateway: the parts of one app, and how they are put together for a process or a test."""
