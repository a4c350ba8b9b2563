"""Decisions about schedules."""
