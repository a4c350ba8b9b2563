"""Schedules as values: their definition, and their progress."""
