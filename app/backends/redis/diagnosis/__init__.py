"""Diagnosis: what servers have, what they lack, and what follows for a gateway."""
