"""Private files: only their owner may read them, and they change as a whole or not at all."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

_MODE = 0o600


def write_private(path: Path, data: bytes) -> None:
    """Write a file in place of the one that is there; when this returns, it is on disk.

    A link stays, and the file that it leads to is replaced. What root writes belongs to the owner
    of the file that was there, or else of the folder, so that the gateway can read it.

    Raises:
        OSError: it cannot be written; then nothing has changed.
    """
    path = path.resolve()
    unfinished = path.with_name(f".{path.name}.{token_hex(8)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            _give_to_owner(descriptor, path)
            os.fsync(descriptor)
        unfinished.rename(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
    _sync_folder(path.parent)


@contextmanager
def lock_of(path: Path) -> Iterator[None]:
    """Wait until no other process changes this file, and keep others waiting meanwhile.

    The lock is a file of its own beside it, which stays: the file itself is replaced.

    Raises:
        OSError: the folder cannot be written to.
    """
    path = path.resolve()
    lock = path.with_name(f"{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    try:
        _give_to_owner(descriptor, path)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _give_to_owner(descriptor: int, path: Path) -> None:
    if os.geteuid() != 0:
        return
    owner = (path if path.exists() else path.parent).stat()
    os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
