"""Damage: a search for it, and a repair that an operator asks for."""
