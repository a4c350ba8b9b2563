"""Machine: the memory and the cores that this process may use."""

import os
import platform
import resource
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath

_GROUPS_OF_US = Path("/proc/self/cgroup")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_GROUPS = Path("/sys/fs/cgroup")
_STATM_BYTES_MAX = 256
_KNOWS_AFFINITY = hasattr(os, "sched_getaffinity")


def memory_bytes(groups_of_us: Path = _GROUPS_OF_US, groups: Path = _GROUPS) -> int:
    """Return how much memory this process may use: the machine's, or its control group's.

    Groups are nested, and each may allow less than its parent (`man 7 cgroups`).
    """
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _files("memory", "memory.max", "memory.limit_in_bytes", groups_of_us, groups):
        with suppress(OSError, ValueError):  # there is none, or it says `max`
            sizes.append(int(path.read_text()))
    return min(sizes)


def boot_id() -> str:
    """Return a unique id of this machine since its last boot."""
    with suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return f"{platform.node()}-{uuid.getnode():x}"


def resident_bytes() -> int:
    """Return the resident memory of this process; if it is unknown, its peak."""
    descriptor = _open_statm()
    if descriptor is None:
        return peak_bytes()
    return int(os.pread(descriptor, _STATM_BYTES_MAX, 0).split()[1]) * resource.getpagesize()


def peak_bytes() -> int:
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@cache
def _open_statm() -> int | None:
    """Open the file once: it is read every second, on the event loop."""
    try:
        return os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def core_count(groups_of_us: Path = _GROUPS_OF_US, groups: Path = _GROUPS) -> int:
    counts = [float(len(os.sched_getaffinity(0)) if _KNOWS_AFFINITY else os.cpu_count() or 1)]
    for path in _files("cpu", "cpu.max", "cpu.cfs_quota_us", groups_of_us, groups):
        with suppress(OSError, ValueError, ZeroDivisionError):  # there is none, or it says `max`
            quota_us, _, period_us = path.read_text().partition(" ")
            if not period_us:
                period_us = path.with_name("cpu.cfs_period_us").read_text()
            if int(quota_us) > 0:  # -1 is any
                counts.append(int(quota_us) / int(period_us))
    return max(int(min(counts)), 1)


def _files(
    controller: str, name: str, name_in_version_1: str, groups_of_us: Path, groups: Path
) -> Iterator[Path]:
    lines = []
    with suppress(OSError):
        lines = groups_of_us.read_text().splitlines()
    for line in lines:
        _, controllers, group_name = line.split(":", 2)
        if not controllers:
            root, file = groups, name
        elif controller in controllers.split(","):
            root, file = groups / controllers, name_in_version_1
        else:
            continue
        own = PurePosixPath(group_name.lstrip("/"))
        # In a container the name may be that of the host, and only the root is there.
        yield from (root / group / file for group in (own, *own.parents))
