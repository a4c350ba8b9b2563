"""Files that only their owner may read, which change atomically and are watched."""

import errno
import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Generic, TypeVar

from headgate.app.runtime.small_file import Stamp, stamp_of
from headgate.app.runtime.threads import GUARDS


class CredentialFault(ValueError):
    """A file, key or setting of credentials cannot be used; the text has no secret."""


_MODE = 0o600


def write_private(path: Path, data: bytes) -> None:
    """Replace a file durably.

    A link stays, and the file that it leads to is replaced. What root writes belongs to the owner
    of the previous file, or else of the folder, so that the gateway can read it. If OSError is
    raised, nothing has changed.
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
    """Hold the lock of a file against other processes.

    The lock is a separate file beside it, which stays: the file itself is replaced. Raises OSError
    if the folder cannot be written to, or another process holds the lock for too long.
    """
    path = path.resolve()
    lock = path.with_name(f"{path.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _MODE)
    try:
        _give_to_owner(descriptor, path)
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


_LOCK_TRIES_MAX = 1_000
_LOCK_PAUSE_S = 0.01


def _lock(descriptor: int) -> None:
    for _ in range(_LOCK_TRIES_MAX):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_LOCK_PAUSE_S)
    raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock of the file")


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


log = logging.getLogger("headgate")

T = TypeVar("T")

LOOK_INTERVAL_S = 0.25
_LOOKS_BEFORE_RETRY = 20
"""A file that could not be read is read again after so many looks, even if it looks the same."""

_MISSING = "the file no longer exists"


class WatchedFile(Generic[T]):
    """A file whose content is taken each time it has changed.

    Once it was read, a file that vanishes or is faulty changes nothing: the last content stays, and
    `warning` says so until the file is valid again.
    """

    def __init__(self, path: Path, read: Callable[[Path], T], take: Callable[[T], None]) -> None:
        """Watch a file, or a link to it: Kubernetes replaces the link.

        `read` runs in a thread and raises a ValueError that names the file; `take` runs on the
        event loop.
        """
        self._path = path
        self._read = read
        self._take = take
        self._stamp: Stamp = None
        self._looks_before_retry = 0
        self.is_taken = False
        self.taken: Stamp = None  # of the content that was taken last
        self.warning: str | None = None

    def load(self) -> None:
        """Read the file, if any, before the event loop runs; raises ValueError if it is faulty."""
        self._stamp = stamp_of(self._path)
        if self._stamp is not None:
            self._take(self._read(self._path))
            self.is_taken, self.taken = True, self._stamp

    async def look(self) -> None:
        stamp = await GUARDS.call(partial(stamp_of, self._path))
        self._looks_before_retry -= 1
        is_retry = self.warning is not None and self._looks_before_retry <= 0
        if stamp == self._stamp and not is_retry:
            return
        self._stamp = stamp  # taken before reading: a change during that is noticed next time
        self._looks_before_retry = _LOOKS_BEFORE_RETRY
        if stamp is None:
            self._warn(f"{self._path}: {_MISSING}" if self.is_taken else None)
            return
        try:
            content = await GUARDS.call(partial(self._read, self._path))
            self._take(content)
        except ValueError as error:
            self._warn(str(error))
            return
        except Exception as error:  # noqa: BLE001  a thread, memory: it is tried again as well
            self._warn(f"{self._path}: {str(error) or type(error).__name__}")
            return
        self._warn(None)
        self.is_taken, self.taken = True, stamp
        log.info("file taken", extra={"file": str(self._path)})

    def _warn(self, fault: str | None) -> None:
        warning = fault and f"{fault}; the previous version stays in use"
        if warning is not None and warning != self.warning:
            log.error("file not taken", extra={"reason": warning})
        self.warning = warning
