"""Machine: what there is of it for this process."""

import os
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = (_CGROUP / "memory.max", _CGROUP / "memory" / "memory.limit_in_bytes")


def memory_bytes() -> int:
    """Return how much memory this process may take: what the cgroup says, or all there is."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # there is none, or it says `max`
            found.append(int(path.read_text()))
    return min(found)
