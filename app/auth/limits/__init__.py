"""The limits and the use of a principal, at all processes of the gateway."""
