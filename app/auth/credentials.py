"""Opens everything that an authenticator needs, and follows its changes."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from headgate.app.auth.audit import Audit
from headgate.app.auth.authenticator import Authenticator
from headgate.app.auth.bad_credentials import BAD_PER_S_MAX, BadCredentials
from headgate.app.auth.grants import Grant, Right, UsageLimits
from headgate.app.auth.key_file import ApiKey, KeyFileFault
from headgate.app.auth.key_ring import KeyRing, KeyWatch
from headgate.app.auth.private_file import CredentialFault, write_private
from headgate.app.auth.tickets import SECRET_BYTES, Tickets, new_secret
from headgate.app.auth.tokens.issuer import Issuer, IssuerChoices, open_issuer
from headgate.app.auth.usage import SharedUsage, Usages
from headgate.app.backends.port import Backend
from headgate.app.data_files import TICKET_SECRET_FILE, keys_path
from headgate.app.runtime import periodic
from headgate.app.runtime.siblings import Siblings
from headgate.app.wire.problems import GatewayError
from headgate.engine.clock import Clock, SystemClock

_FORGET_INTERVAL_S = 60.0
_CHANGED = "keys changed"
_TAKEN = "keys taken"
_SPREAD_TRIES_MAX = 100
_SPREAD_PAUSE_S = 0.01
"""A process that takes longer, as it hangs, takes the file when it goes on."""


class CredentialOptions(NamedTuple):
    data_dir: Path | None = None  # None: nothing is kept
    keys_file: Path | None = None  # None: that of the data directory, if there is one
    issuer: IssuerChoices = IssuerChoices()
    ticket_secret: bytes | None = None
    anonymous: Sequence[Grant] | None = None  # None: not allowed
    opened: Sequence[str] = ()  # settings that open operations to everybody
    limits: UsageLimits = UsageLimits()  # of use, where a principal has none of its own
    bad_credentials_per_s_max: int = BAD_PER_S_MAX  # of one network
    siblings: Siblings | None = None  # other processes of the gateway


class Credentials:
    """The credentials of a gateway; call `load`, then `authenticator`; `run` follows changes."""

    def __init__(self, options: CredentialOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        path = options.keys_file
        if options.data_dir is not None:
            path = keys_path(options.data_dir, path)
        self._keys: KeyWatch | None = None
        if path is not None:
            self._keys = KeyWatch(
                path,
                data_dir=options.data_dir,
                now_ms=self._clock.wall_ms,
                on_appear=self._look_again,
                on_change=self._note_change,
            )
        self._ring = KeyRing() if self._keys is None else self._keys.ring
        self._issuer: Issuer | None = None
        self._anonymous: list[Right] | None = None
        self._authenticator: Authenticator | None = None
        self._shared_usage: SharedUsage | None = None
        self._has_changed = asyncio.Event()

    def load(self) -> None:
        """Read the files; raises ValueError, which names the faulty one."""
        secret = self._options.ticket_secret
        if secret is not None and len(secret) < SECRET_BYTES:
            raise CredentialFault(f"the secret of tickets must have at least {SECRET_BYTES} bytes")
        if self._options.anonymous is not None:
            self._anonymous = [grant.bind({}) for grant in self._options.anonymous]
        if self._keys is not None:
            self._keys.load()
        keys_file = self._options.keys_file
        if keys_file is not None and not self._ring.is_configured:  # not taken for "no keys"
            raise KeyFileFault(f"{keys_file} does not exist; `headgate keys add` creates it")
        self._issuer = open_issuer(self._options.issuer, on_withdrawn=self._end_tokens)

    def authenticator(self, backend: Backend) -> Authenticator:
        usages, siblings = Usages(self._options.limits, self._monotonic_s), self._options.siblings
        if siblings is not None:
            self._shared_usage = SharedUsage(usages, siblings)
            siblings.on_announcement(_CHANGED, self._look)
            siblings.on_question(_TAKEN, self._taken)
        made = Authenticator(
            backend,
            keys=self._ring,
            tokens=None if self._issuer is None else self._issuer.verifier,
            tickets=Tickets(self.ticket_secret(), self._ring, self._clock),
            clock=self._clock,
            usages=usages,
            audit=Audit(self._monotonic_s),
            bad_credentials=BadCredentials(
                self._monotonic_s, self._options.bad_credentials_per_s_max
            ),
            anonymous=self._anonymous,
            opened=self._options.opened,
        )
        self._authenticator = made
        return made

    @property
    def are_configured(self) -> bool:
        return self._ring.is_configured or self._issuer is not None

    def warnings(self) -> Iterator[str]:
        if self._keys is not None and self._keys.warning is not None:
            yield "The keys file is invalid. The gateway keeps using the keys that it read before."
        jwks = None if self._issuer is None else self._issuer.jwks
        if jwks is not None and not jwks.is_known:
            yield (
                "The keys that verify tokens could not be fetched yet. Requests with tokens are "
                "answered 503."
            )
        elif jwks is not None and not jwks.keys:
            yield "The issuer has no key that can verify tokens. All tokens are refused."
        elif jwks is not None and jwks.warning is not None:
            yield ("The keys that verify tokens may be out of date: the last ones stay in use.")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            if self._keys is not None:
                tasks.create_task(self._keys.run())
            if self._issuer is not None and self._issuer.jwks is not None:
                tasks.create_task(self._issuer.jwks.run())
            tasks.create_task(periodic.repeat("keys verified anew", self._verify_anew))
            if self._shared_usage is not None:
                tasks.create_task(self._shared_usage.run())
                tasks.create_task(periodic.repeat("changes announced", self._announce_change))

    async def close(self) -> None:
        if self._keys is not None:
            await self._keys.close()

    async def _verify_anew(self) -> None:
        """Let keys be verified again now and then, so that their last use is known."""
        await asyncio.sleep(_FORGET_INTERVAL_S)
        if self._authenticator is not None:
            self._authenticator.forget()

    def _monotonic_s(self) -> float:
        return self._clock.monotonic_ms() / 1000

    def _look_again(self) -> None:
        if self._authenticator is not None:
            self._authenticator.look_again()

    def _end_tokens(self, labels: Collection[str]) -> None:
        if self._authenticator is not None:
            self._authenticator.end_tokens(labels)

    def _note_change(self) -> None:
        self._has_changed.set()

    def keys(self) -> Mapping[str, ApiKey]:
        """Return the API keys by their ids; raises GatewayError if the gateway can have none."""
        return self._watch().ring.keys

    async def last_use_of_keys(self) -> Mapping[str, int]:
        return await self._watch().last_use()

    async def change_keys(self, change: Callable[[dict[str, ApiKey]], None]) -> None:
        """Change the keys file, and return once all processes use it.

        `change` runs in a thread under the lock of the file; if it raises, nothing changes. Raises
        GatewayError if there is no file, or it cannot be changed.
        """
        keys = self._watch()
        try:
            await keys.change(change)
        except KeyFileFault as error:
            text = f"The keys file cannot be changed: {error}"
            raise GatewayError(error.code, text) from None
        if self._options.siblings is not None:
            await self._until_taken(self._options.siblings, keys)

    async def _until_taken(self, siblings: Siblings, keys: KeyWatch) -> None:
        for _ in range(_SPREAD_TRIES_MAX):
            taken = await siblings.gather(_TAKEN, b"", within_s=1)
            if all(mark == keys.taken for mark in taken):
                return
            await asyncio.sleep(_SPREAD_PAUSE_S)

    def _watch(self) -> KeyWatch:
        if self._keys is None:
            text = "This gateway stores no keys, as its data directory is :memory:"
            raise GatewayError(
                "not_found", f"{text}: start it with `--keys-file FILE`", pointer="/path"
            )
        return self._keys

    def _look(self, sender: int, body: bytes) -> None:
        del sender, body
        if self._keys is not None:
            self._keys.look()

    def _taken(self, body: bytes) -> bytes:
        """Say which version of the file is in use here, and look whether there is a newer one."""
        self._look(0, body)
        return b"" if self._keys is None else self._keys.taken

    async def _announce_change(self) -> None:
        """Keep processes from accepting keys for long that others no longer accept."""
        await self._has_changed.wait()
        self._has_changed.clear()
        if self._options.siblings is not None:
            try:
                await self._options.siblings.announce(_CHANGED, b"")
            except BaseException:
                self._has_changed.set()
                raise

    def ticket_secret(self) -> bytes:
        """Return the secret of tickets: the configured one, or that of the data directory.

        Without a data directory each call returns a new one.
        """
        if self._options.ticket_secret is not None:
            return self._options.ticket_secret
        if self._options.data_dir is None:
            return new_secret()
        path = self._options.data_dir / TICKET_SECRET_FILE
        with suppress(OSError):
            kept = path.read_bytes()
            if len(kept) == SECRET_BYTES:
                return kept
        secret = new_secret()
        with suppress(OSError):  # tickets end with the process, then
            write_private(path, secret)
        return secret
