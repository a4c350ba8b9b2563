"""The keys of an issuer, kept as they are in a file or at a URL.

Nothing is fetched in a request. A failed fetch changes nothing: the last keys stay in use, and
`warning` says so. A set without keys is no failure: it withdraws all.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from headgate.app.auth.private_file import LOOK_INTERVAL_S, WatchedFile
from headgate.app.auth.tokens.compact import Algorithm
from headgate.app.auth.tokens.verifying_key import (
    SIZE_BYTES_MAX,
    KeySet,
    KeySetFault,
    parse_key_set,
)
from headgate.app.runtime import periodic
from headgate.app.runtime.small_file import read_small

log = logging.getLogger("headgate")

REFRESH_INTERVAL_S = 300.0
ASKED_INTERVAL_S = 10.0
"""Pause after a fetch before unknown keys in tokens can cause another one."""

_RETRY_S_MIN = 1.0

OnWithdrawn = Callable[[frozenset[str]], None]
"""Takes the labels of keys that are no longer good; `Principal.key` is the label of a token's."""

Fetch = Callable[[], Awaitable[bytes]]
"""Returns the key set as JSON; raises a KeySetFault."""


class Jwks:
    """The current keys; the owner runs `run` in a task."""

    def __init__(self, pinned: Collection[Algorithm], on_withdrawn: OnWithdrawn) -> None:
        """Start without keys; an empty `pinned` allows all algorithms that fit the keys."""
        self.keys = KeySet()
        self.is_known = False  # there was a key set, so a key that is not in it is none
        self._pinned = frozenset(pinned)
        self._on_withdrawn = on_withdrawn
        self._withdrawn: frozenset[str] = frozenset()  # and perhaps not all ended yet

    @property
    def warning(self) -> str | None:
        raise NotImplementedError

    def ask_for_refresh(self) -> None: ...

    async def run(self) -> None:
        raise NotImplementedError

    def _take(self, keys: KeySet) -> None:
        self._withdrawn |= self.keys.withdrawn_in(keys)
        self.keys, self.is_known = keys, True
        if not keys:
            log.warning("the issuer has no key that can verify tokens: all tokens are refused")
        if self._withdrawn:
            self._on_withdrawn(self._withdrawn)
            self._withdrawn = frozenset()


class JwksFile(Jwks):
    def __init__(
        self, path: Path, pinned: Collection[Algorithm], on_withdrawn: OnWithdrawn
    ) -> None:
        """Read the file; raises KeySetFault if it cannot be read or is no key set."""
        super().__init__(pinned, on_withdrawn)
        self._file = WatchedFile(path, self._read, self._take)
        self._file.load()
        if not self.is_known:
            raise KeySetFault(f"{path} does not exist")
        if not self.keys:
            raise KeySetFault(f"{path}: the key set has no keys")

    @property
    def warning(self) -> str | None:
        return self._file.warning

    async def run(self) -> None:
        await periodic.repeat("JWKS file", self._follow)

    async def _follow(self) -> None:
        await self._file.look()
        await asyncio.sleep(LOOK_INTERVAL_S)

    def _read(self, path: Path) -> KeySet:
        try:
            return parse_key_set(read_small(path, SIZE_BYTES_MAX), self._pinned)
        except OSError as error:
            raise KeySetFault(f"{path}: {error.strerror}") from None
        except KeySetFault as fault:
            raise KeySetFault(f"{path}: {fault}") from None


class JwksUrl(Jwks):
    def __init__(
        self,
        url: str,
        fetch: Fetch,
        pinned: Collection[Algorithm],
        on_withdrawn: OnWithdrawn,
        *,
        jitter: Callable[[], float],
    ) -> None:
        """Take the fetcher; `jitter` returns 0 to 1, so that gateways do not fetch in step."""
        super().__init__(pinned, on_withdrawn)
        self._url = url
        self._fetch = fetch
        self._jitter = jitter
        self._warning: str | None = f"{url}: the keys could not be fetched yet"
        self._asked = asyncio.Event()
        self._failures = 0  # since the last fetch that worked

    @property
    def warning(self) -> str | None:
        return self._warning

    def ask_for_refresh(self) -> None:
        """Fetch because of an unknown key, but at most once in 10 s."""
        self._asked.set()

    async def run(self) -> None:
        """Fetch now, every five minutes and when asked to; less and less often while it fails."""
        await periodic.repeat("JWKS URL", self._follow)

    async def _follow(self) -> None:
        self._failures += 1  # until it is known that this is none
        if await self._refresh():
            self._failures = 0
        await self._pause(self._interval_s(self._failures))

    async def _refresh(self) -> bool:
        self._asked.clear()
        try:
            keys = parse_key_set(await self._fetch(), self._pinned)
            self._take(keys)
        except Exception as fault:  # noqa: BLE001  for want of a thread, for instance
            warning = f"{self._url}: {str(fault) or type(fault).__name__}"
            if warning != self._warning:
                log.error(  # noqa: TRY400 the fault says all there is
                    "keys of the issuer could not be fetched", extra={"reason": warning}
                )
            self._warning = warning
            return False
        if self._warning is not None:
            log.info("keys of the issuer fetched", extra={"keys": len(keys)})
        self._warning = None
        return True

    def _interval_s(self, failures: int) -> float:
        if failures == 0:
            interval_s = REFRESH_INTERVAL_S
        else:
            interval_s = min(_RETRY_S_MIN * 2 ** min(failures, 10), REFRESH_INTERVAL_S)
        return interval_s * (0.5 + self._jitter() / 2)

    async def _pause(self, interval_s: float) -> None:
        soonest_s = min(ASKED_INTERVAL_S, interval_s)
        await asyncio.sleep(soonest_s)
        try:
            async with asyncio.timeout(interval_s - soonest_s):
                await self._asked.wait()
        except TimeoutError:
            pass
