"""Schedules at the servers."""
