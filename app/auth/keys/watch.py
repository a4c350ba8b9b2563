"""Key watch: keeps a key ring as its file is, and remembers when keys were used."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from headgate.app.auth.keys.key_file import Keys, read_keys
from headgate.app.auth.keys.ring import KeyRing
from headgate.app.auth.keys.use import read_use, write_use
from headgate.app.auth.watched_file import LOOK_INTERVAL_S, WatchedFile
from headgate.app.runtime import periodic

log = logging.getLogger("headgate")

_SAVE_INTERVAL_S = 60.0


class KeyWatch:
    """The keys of a file, which may change at any time.

    Call `load` before the event loop runs, then `run` in a task, and `close` once that has ended.
    """

    def __init__(
        self,
        path: Path,
        *,
        data_dir: Path | None,
        now_ms: Callable[[], int],
        on_appear: Callable[[], None] = lambda: None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Watch a keys file.

        Args:
            path: of the file; it may be missing.
            data_dir: where the times of use are kept; None: nowhere.
            now_ms: unix time.
            on_appear: called when there is a file for the first time, after the start.
            on_change: called when the file was taken, after the start.
        """
        self.ring = KeyRing()
        self._path = path
        self._file = WatchedFile(path, self._read, self._take)
        self._data_dir = data_dir
        self._now_ms = now_ms
        self._on_appear = on_appear
        self._on_change = on_change
        self._look_now = asyncio.Event()
        self._is_running = False
        self._saved: dict[str, int] = {}

    @property
    def warning(self) -> str | None:
        """Return why the file as it is now is not in use; None: it is."""
        return self._file.warning

    def load(self) -> None:
        """Read the file, if there is one, and when its keys were used.

        Raises:
            KeyFileFault: it has a fault.
        """
        self._file.load()
        if self._data_dir is not None:
            used_at_ms = read_use(self._data_dir)
            self.ring.used_at_ms.update(
                (key, at) for key, at in used_at_ms.items() if key in self.ring.keys
            )
            self._saved = dict(self.ring.used_at_ms)

    async def run(self) -> None:
        """Follow the file, end what has expired, and save times of use, until cancelled."""
        self._is_running = True
        async with asyncio.TaskGroup() as tasks:  # so that what has expired ends in any case
            tasks.create_task(periodic.repeat("keys file", self._follow))
            tasks.create_task(periodic.repeat("keys that expire", self._end_expired))
            tasks.create_task(periodic.repeat("times of use of keys", self._save_later))

    async def _follow(self) -> None:
        await self._file.look()
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_INTERVAL_S):
                await self._look_now.wait()
        self._look_now.clear()

    async def _end_expired(self) -> None:
        self.ring.end_expired(self._now_ms())
        await asyncio.sleep(LOOK_INTERVAL_S)

    async def _save_later(self) -> None:
        await asyncio.sleep(_SAVE_INTERVAL_S)
        await self._save()

    def look(self) -> None:
        """Look at the file at once, as another process has seen that it has changed."""
        self._look_now.set()

    async def close(self) -> None:
        """Save the times of use a last time."""
        await self._save()

    def _read(self, path: Path) -> Keys:
        """Read the file, in a thread. Keys that are as before are the same objects.

        So the event loop need not compare them, which took 150 ms for 50,000 keys in use.
        """
        before = self.ring.keys
        return {
            key_id: before[key_id] if before.get(key_id) == key else key
            for key_id, key in read_keys(path).items()
        }

    def _take(self, keys: Keys) -> None:
        is_new = self._is_running and not self.ring.is_configured
        self.ring.replace(keys)
        if is_new:
            log.warning(
                "keys file appeared: from now on the gateway asks for credentials",
                extra={"file": str(self._path)},
            )
            self._on_appear()
        if self._is_running:
            self._on_change()

    async def _save(self) -> None:
        used_at_ms = dict(self.ring.used_at_ms)
        if self._data_dir is None or used_at_ms == self._saved:
            return
        try:
            used_at_ms = await asyncio.to_thread(write_use, self._data_dir, used_at_ms)
        except OSError as error:  # nothing depends on it
            log.warning("times of use of keys not saved", extra={"reason": str(error)})
        ours = self.ring.used_at_ms
        ours.update((key, max(at, ours[key])) for key, at in used_at_ms.items() if key in ours)
        self._saved = used_at_ms
