"""The engine's work on the event loop: carrying out requests, blocked reads, housekeeping."""
