"""Diagnosis: features and faults of servers, and the effects on a gateway."""
