"""Machine: the memory that this process may use."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_GROUPS_OF_US = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def memory_bytes(groups_of_us: Path = _GROUPS_OF_US, groups: Path = _GROUPS) -> int:
    """Return how much memory this process may use: all of the machine's, or its control group's.

    Groups are nested, and each may allow less than the one around it (`man 7 cgroups`).

    Args:
        groups_of_us: says which groups the process is in.
        groups: where the groups are.
    """
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _limits(groups_of_us, groups):
        with suppress(OSError, ValueError):  # there is none, or it says `max`
            sizes.append(int(path.read_text()))
    return min(sizes)


def _limits(groups_of_us: Path, groups: Path) -> Iterator[Path]:
    """Yield the files that may have a limit, of version 2 and version 1."""
    lines = []
    with suppress(OSError):
        lines = groups_of_us.read_text().splitlines()
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if not controllers:
            root, file = groups, "memory.max"
        elif controllers == "memory":
            root, file = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        own = PurePosixPath(name.lstrip("/"))
        # In a container the name may be that of the host, and only the root is there.
        yield from (root / group / file for group in (own, *own.parents))
