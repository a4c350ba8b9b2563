"""Logs: what a process of the gateway says to its operator, on standard error."""
