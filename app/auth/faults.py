"""Faults of credential settings. They stop the start, and the text names the remedy."""


class CredentialFault(ValueError):
    """A file, a key or a setting of credentials cannot be used. The text has no secret."""
