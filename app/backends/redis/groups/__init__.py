"""Groups: everything of consumer groups, from their creation to dead letters and housekeeping."""
