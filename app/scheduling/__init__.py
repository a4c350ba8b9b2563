"""Scheduling: when a schedule is due, and who runs it."""
