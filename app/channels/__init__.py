"""Channels: messages that nobody keeps, and who is there."""
