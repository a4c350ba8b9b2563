"""Who may connect, according to the settings."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from itertools import count
from pathlib import Path

from headgate.app.auth.credentials import CredentialOptions, Credentials
from headgate.app.auth.grants import ANYBODY, UsageLimits
from headgate.app.auth.key_file import SIZE_BYTES_MAX
from headgate.app.auth.private_file import write_private
from headgate.app.auth.tokens.compact import ClaimRules
from headgate.app.auth.tokens.issuer import IssuerChoices
from headgate.app.backends.leading import bucket_of
from headgate.app.backends.port import Backend
from headgate.app.data_files import KEYS_FILE
from headgate.app.runtime.siblings import Siblings
from headgate.app.runtime.small_file import Stamp, read_small, stamp_of
from headgate.app.settings import MEMORY, Settings
from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.manifest import KEYS, number_of, numbered
from headgate.engine.bucket.opening import open_bucket
from headgate.engine.clock import Clock
from headgate.engine.replies import LeaderRole


def open_credentials(
    settings: Settings,
    clock: Clock | None = None,
    *,
    ticket_secret: bytes | None = None,
    siblings: Siblings | None = None,
) -> Credentials:
    """Read the files of the credentials; raises ValueError, which names the faulty one."""
    if ticket_secret is None and settings.ticket_secret is not None:
        ticket_secret = settings.ticket_secret.get_secret_value().encode()
    anonymous = settings.anonymous if settings.allow_anonymous else None
    if settings.allow_anonymous and anonymous is None:
        anonymous = [ANYBODY]
    credentials = Credentials(
        CredentialOptions(
            data_dir=None if settings.data_dir == MEMORY else settings.data_dir,
            keys_file=settings.keys_file,
            issuer=_issuer(settings),
            ticket_secret=ticket_secret,
            anonymous=anonymous,
            opened=["open_metrics"] if settings.open_metrics else [],
            limits=_usage_limits(settings),
            bad_credentials_per_s_max=settings.bad_credentials_per_s_max,
            siblings=siblings,
        ),
        clock,
    )
    credentials.load()
    return credentials


def _issuer(settings: Settings) -> IssuerChoices:
    secret = settings.jwt_secret
    return IssuerChoices(
        secret=None if secret is None else secret.get_secret_value().encode(),
        public_key_file=settings.jwt_public_key_file,
        jwks=settings.jwt_jwks,
        algorithms=settings.jwt_algorithms,
        rules=ClaimRules(
            settings.jwt_audience, settings.jwt_issuer, settings.jwt_leeway_s, settings.jwt_grants
        ),
    )


def _usage_limits(settings: Settings) -> UsageLimits:
    return UsageLimits(
        requests_per_s_max=settings.requests_per_s_max,
        entries_per_s_max=settings.entries_per_s_max,
        bytes_per_s_max=settings.bytes_per_s_max,
        connections_max=settings.principal_connections_max,
        waiters_max=settings.principal_waiters_max,
        subscriptions_max=settings.principal_subscriptions_max,
    )


# Shared keys: the keys file of a data directory is in its bucket, too.
#
# So the keys of clients work on the next machine, and at a standby. The leader puts the file as a
# numbered object when it has changed; everybody else has the newest one. It holds digests of keys,
# and never a key.

log = logging.getLogger("headgate")

_LOOK_S = 2.0
_FETCHED_EVERY = 5
"""A standby looks less often: each look is a request."""

_KEPT_COUNT = 3


def shared_keys(settings: Settings) -> SharedKeys | None:
    """Return the shared keys; None: there is no bucket, or the operator manages the file."""
    if settings.bucket is None or settings.keys_file is not None:
        return None
    return SharedKeys(open_bucket(settings.bucket), settings.data_dir / KEYS_FILE)


def fetch_shared_keys(settings: Settings) -> None:
    """Take the keys of clients from the bucket, before credentials are opened."""
    shared = shared_keys(settings)
    if shared is not None:
        shared.fetch()


async def share_keys(settings: Settings, backend: Backend) -> None:
    shared = await asyncio.to_thread(shared_keys, settings)  # it looks at files
    if shared is not None:
        await shared.run(backend)


class SharedKeys:
    """The keys file of a gateway with a bucket.

    A file that has changed here, even while no gateway ran, is put by the next leader, unless
    somebody else has put one meanwhile: then that one wins.
    """

    def __init__(self, bucket: Bucket, path: Path) -> None:
        self._bucket, self._path = bucket, path
        self._stamp: Stamp = None  # of the file as it was put
        self._tried: bytes | None = None  # what was to be put last; its answer may be lost
        self._note = path.with_name(f"{path.stem}-in-bucket")
        self._number = self._noted()  # of the object that the file is, or has been made from

    def fetch(self) -> None:
        """Write the file as it is in the bucket, if changed; raises OSError."""
        number = self._newest()
        if number > self._number:
            data = self._bucket.read(numbered(KEYS, number))
            if data != self._content():
                self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
                write_private(self._path, data)
                log.info("keys loaded from the bucket", extra={"file": str(self._path)})
            self._set(number, stamp_of(self._path))

    def put(self) -> None:
        stamp = stamp_of(self._path)
        if stamp == self._stamp or stamp is None:
            return
        data, newest = self._content(), self._newest()
        there = self._bucket.read(numbered(KEYS, newest)) if newest else None
        if newest > self._number and there not in (data, self._tried):  # somebody else has put it
            self.fetch()
            return
        self._tried = data
        if newest and there == data:
            self._set(newest, stamp)
        elif data is not None and self._bucket.put_new(numbered(KEYS, newest + 1), data):
            self._set(newest + 1, stamp)
            old = [each.name for each in self._bucket.objects(KEYS)][:-_KEPT_COUNT]
            self._bucket.remove(old)

    async def run(self, backend: Backend) -> None:
        """Put the file as it changes while this gateway leads, and fetch it while it does not."""
        for number in count():
            state = bucket_of(backend)
            with suppress(OSError):  # the journal says that the bucket is away
                if state is not None and state.role is LeaderRole.LEADER:
                    await self._bucket.in_thread(self.put)
                elif number % _FETCHED_EVERY == 0:
                    await self._bucket.in_thread(self.fetch)
            await asyncio.sleep(_LOOK_S)

    def _set(self, number: int, stamp: Stamp) -> None:
        """Record which object the file equals; later changes are local ones."""
        write_private(self._note, str(number).encode())
        self._number, self._stamp = number, stamp

    def _noted(self) -> int:
        if self._path.exists():
            with suppress(FileNotFoundError, ValueError):
                return int(read_small(self._note, 100))
        return 0

    def _newest(self) -> int:
        numbers = [number_of(each.name) for each in self._bucket.objects(KEYS)]
        return max([number for number in numbers if number is not None], default=0)

    def _content(self) -> bytes | None:
        with suppress(FileNotFoundError):
            return read_small(self._path, SIZE_BYTES_MAX)
        return None
