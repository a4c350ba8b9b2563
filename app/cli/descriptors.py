"""Descriptors: how many files a command may have open."""

import resource
from contextlib import suppress


def take_all_descriptors() -> None:
    """Raise the limit of open files as far as the system allows."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
