"""Principals, their rights, and their limits of use."""
