"""Private files: only their owner may read them; they change as a whole, and are watched."""

import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Generic, TypeVar

from headgate.app.runtime.small_file import Stamp, stamp_of
from headgate.app.runtime.threads import GUARDS


class CredentialFault(ValueError):
    """A file, a key or a setting of credentials cannot be used. The text has no secret."""


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


log = logging.getLogger("headgate")

T = TypeVar("T")

LOOK_INTERVAL_S = 0.25
_LOOKS_BEFORE_RETRY = 20
"""A file that could not be read is read again after so many looks, even if it looks the same."""

_MISSING = "there is no such file any more"


class WatchedFile(Generic[T]):
    """A file whose content is taken each time it has changed.

    Once it was read, a file that vanishes or has a fault changes nothing: what was taken last
    stays, and `warning` says so until the file is well again.
    """

    def __init__(self, path: Path, read: Callable[[Path], T], take: Callable[[T], None]) -> None:
        """Watch a file.

        Args:
            path: of the file, or of a link to it: Kubernetes exchanges the link.
            read: reads it, in a thread; raises a ValueError that names the file.
            take: takes what was read, on the event loop.
        """
        self._path = path
        self._read = read
        self._take = take
        self._stamp: Stamp = None
        self._looks_before_retry = 0
        self.is_taken = False
        self.warning: str | None = None

    def load(self) -> None:
        """Read the file for the first time, before the event loop runs; it may be missing.

        Raises:
            ValueError: it has a fault.
        """
        self._stamp = stamp_of(self._path)
        if self._stamp is not None:
            self._take(self._read(self._path))
            self.is_taken = True

    async def look(self) -> None:
        """Take the file if it has changed."""
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
        self.is_taken = True
        log.info("file taken", extra={"file": str(self._path)})

    def _warn(self, fault: str | None) -> None:
        warning = fault and f"{fault}; what was read before stays in use"
        if warning is not None and warning != self.warning:
            log.error("file not taken", extra={"reason": warning})
        self.warning = warning
