"""The keys of the file in memory, kept current; turns a key into a principal."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import NamedTuple

from headgate.app.auth.key_file import (
    ApiKey,
    Keys,
    change_keys,
    parse_key,
    read_keys,
    read_use,
    write_use,
)
from headgate.app.auth.principal import Principal, Unauthenticated
from headgate.app.auth.private_file import LOOK_INTERVAL_S, WatchedFile
from headgate.app.runtime import periodic
from headgate.app.runtime.threads import KEYS

_NO_KEY = "0" * 64
"""Compared in place of a missing key, so that the check takes as long."""

_MARK_LENGTH = 16
"""Characters of the hash of a secret that tell it from others of its key."""

_INVALID = "The API key is not valid."
_EXPIRED = "The API key has expired."


class _Secret(NamedTuple):
    """A secret of a key; ending its one principal ends everything that it opened."""

    key: str
    sha256: str


class KeyRing:
    """All keys.

    A principal is created at a key's first use, so that loading a file with many keys hardly delays
    the event loop.
    """

    def __init__(self, keys: Mapping[str, ApiKey] | None = None) -> None:
        """Take the keys by their ids; None means that there is no keys file."""
        self._keys: Mapping[str, ApiKey] = keys or {}
        self.is_configured = keys is not None  # then requests need a credential
        self._principals: dict[_Secret, Principal] = {}
        self.used_at_ms: dict[str, int] = {}  # by id of the key

    @property
    def keys(self) -> Mapping[str, ApiKey]:
        return self._keys

    def verify(self, token: str, now_ms: int) -> Principal:
        """Return the principal of a key, the same object each time; raises Unauthenticated."""
        given = parse_key(token)
        key = None if given is None else self._keys.get(given.id)
        hashes = () if key is None else key.hashes
        digest = _NO_KEY if given is None else sha256(given.secret.encode()).hexdigest()
        matching = [each for each in hashes or (_NO_KEY,) if compare_digest(each, digest)]
        if key is None or not hashes or not matching:
            raise Unauthenticated(_INVALID)
        expires_at_ms = key.expiry_of(matching[0])
        if expires_at_ms is not None and expires_at_ms <= now_ms:
            raise Unauthenticated(_EXPIRED)
        self.used_at_ms[key.id] = now_ms
        return self._principal(key, matching[0])

    def mark_of(self, principal: Principal) -> str | None:
        return next(
            (
                f"{secret.key}.{secret.sha256[:_MARK_LENGTH]}"
                for secret, known in self._principals.items()
                if known is principal
            ),
            None,
        )

    def owner_of(self, mark: str, now_ms: int) -> Principal | None:
        key_id, _, beginning = mark.partition(".")
        key = self._keys.get(key_id)
        for each in () if key is None else key.hashes:
            if key is not None and each[:_MARK_LENGTH] == beginning:
                expires_at_ms = key.expiry_of(each)
                if expires_at_ms is None or expires_at_ms > now_ms:
                    return self._principal(key, each)
        return None

    def replace(self, keys: Mapping[str, ApiKey]) -> None:
        """Take the keys of a file that has changed.

        The principal of an unchanged key stays the same object, and so does that of a secret whose
        expiry changed. All others end.
        """
        before, self._keys = self._keys, keys
        self.is_configured = True
        for secret, principal in list(self._principals.items()):
            key = keys.get(secret.key)
            if key is before[secret.key]:
                continue
            reason = _ending(secret, before[secret.key], key)
            if key is not None and reason is None:
                principal.expires_at_ms = key.expiry_of(secret.sha256)
            else:
                del self._principals[secret]
                principal.end(reason or "The API key was revoked.")
        for key_id in self.used_at_ms.keys() - keys.keys():
            del self.used_at_ms[key_id]

    def end_expired(self, now_ms: int) -> None:
        """End the expired principals.

        A connection that waits for the end of its principal then needs no clock. An expiry that was
        set later, as that of a replaced secret, is noticed as well.
        """
        for secret, principal in list(self._principals.items()):
            if principal.expires_at_ms is not None and principal.expires_at_ms <= now_ms:
                del self._principals[secret]
                principal.end(_EXPIRED)

    def _principal(self, key: ApiKey, sha256_text: str) -> Principal:
        secret = _Secret(key.id, sha256_text)
        principal = self._principals.get(secret)
        if principal is None or principal.ending is not None:
            principal = Principal(
                key.name,
                key.rights(),
                limits=key.limits,
                expires_at_ms=key.expiry_of(sha256_text),
                key=key.id,
            )
            self._principals[secret] = principal
        return principal


def _ending(secret: _Secret, before: ApiKey, key: ApiKey | None) -> str | None:
    """Return why a secret of a key no longer opens what it opened, or None if it does."""
    if key is None or key.revoked_at_ms is not None:
        return "The API key was revoked."
    if secret.sha256 not in key.hashes:
        return "The API key was replaced by a new one."
    if (key.name, key.grants, key.limits) != (before.name, before.grants, before.limits):
        return "The API key was changed."
    return None


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
        """Watch a keys file, which may be missing.

        `data_dir` keeps the times of use; None keeps none. After the start, `on_appear` is called
        when there is a file for the first time, and `on_change` when the file was taken.
        """
        self.ring = KeyRing()
        self._path = path
        self._file = WatchedFile(path, self._read, self._take)
        self._data_dir = data_dir
        self._now_ms = now_ms
        self._on_appear = on_appear
        self._on_change = on_change
        self._look_now = asyncio.Event()
        self._looking = asyncio.Lock()  # or a look that began earlier may take an older file
        self._is_running = False
        self._saved: dict[str, int] = {}

    @property
    def warning(self) -> str | None:
        return self._file.warning

    def load(self) -> None:
        self._file.load()
        if self._data_dir is not None:
            used_at_ms = read_use(self._data_dir)
            self.ring.used_at_ms.update(
                (key, at) for key, at in used_at_ms.items() if key in self.ring.keys
            )
            self._saved = dict(self.ring.used_at_ms)

    async def run(self) -> None:
        self._is_running = True
        async with asyncio.TaskGroup() as tasks:  # so that what has expired ends in any case
            tasks.create_task(periodic.repeat("keys file", self._follow))
            tasks.create_task(periodic.repeat("keys that expire", self._end_expired))
            tasks.create_task(periodic.repeat("times of use of keys", self._save_later))

    async def _follow(self) -> None:
        await self._catch_up()
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
        self._look_now.set()

    @property
    def taken(self) -> bytes:
        """Return a mark of the version of the file that is in use; all processes have the same."""
        return repr(self._file.taken).encode()

    async def change(self, change: Callable[[dict[str, ApiKey]], None]) -> None:
        """Change the keys of the file as `change_keys` does, and take them; raises KeyFileFault."""

        def change_file() -> None:
            if self._path.parent == self._data_dir:
                self._data_dir.mkdir(0o700, parents=True, exist_ok=True)
            change_keys(self._path, change)

        await KEYS.call(change_file)
        await self._catch_up()

    async def last_use(self) -> Mapping[str, int]:
        """Return when each key was used last, by all processes as far as they have saved it."""
        ours = self.ring.used_at_ms
        saved = {} if self._data_dir is None else await KEYS.call(partial(read_use, self._data_dir))
        return {key: max(saved.get(key, 0), ours.get(key, 0)) for key in saved.keys() | ours.keys()}

    async def _catch_up(self) -> None:
        async with self._looking:
            await self._file.look()

    async def close(self) -> None:
        await self._save()

    def _read(self, path: Path) -> Keys:
        """Read the file in a thread; unchanged keys stay the same objects.

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
                "keys file appeared: the gateway requires credentials from now on",
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
            log.warning("last use of keys could not be saved", extra={"reason": str(error)})
        ours = self.ring.used_at_ms
        ours.update((key, max(at, ours[key])) for key, at in used_at_ms.items() if key in ours)
        self._saved = used_at_ms
