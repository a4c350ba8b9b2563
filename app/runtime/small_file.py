"""Small files that an operator names or replaces, and that may be anything by now."""

import errno
import os
import stat
from pathlib import Path

Stamp = tuple[int, ...] | str | None
"""Changes when the file does; a text for an unreadable file; None for a missing one."""


def stamp_of(path: Path) -> Stamp:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(error)
    times_ns = status.st_mtime_ns, status.st_ctime_ns
    return status.st_dev, status.st_ino, status.st_size, *times_ns


def read_small(path: Path, size_bytes_max: int) -> bytes:
    """Return the content of a file; OSError for pipes, devices and files that are too large."""
    # Without waiting: a pipe of this name would hold the thread for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is a pipe or a device, not a file with data")
        data = file.read(size_bytes_max + 1)
    if len(data) > size_bytes_max:
        raise OSError(errno.EFBIG, f"the file is larger than {size_bytes_max} bytes")
    return data
