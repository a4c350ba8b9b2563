"""Limits of use: the bounds and the use of a principal, at all processes of the gateway."""
