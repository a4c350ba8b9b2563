"""Automation: schedules and pushes, by which a gateway acts though no client asks for it then."""
