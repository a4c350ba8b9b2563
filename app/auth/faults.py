"""Faults of what an operator configured. They stop the start, and the text says what to mend."""


class CredentialFault(ValueError):
    """A file, a key or a setting of credentials cannot be used. The text has no secret."""
