"""From a credential to the access of a principal, for every kind of connection.

A credential is verified once; later uses are a dictionary lookup until it ends.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar
from weakref import WeakSet

from headgate.app.auth.access import Access
from headgate.app.auth.audit import Audit, Served, served_address
from headgate.app.auth.bad_credentials import BadCredentials, TooManyBadCredentials
from headgate.app.auth.grants import Right
from headgate.app.auth.needs import Needs
from headgate.app.auth.principal import Principal, Unauthenticated, home
from headgate.app.auth.tickets import Tickets
from headgate.app.auth.tokens.compact import SIZE_BYTES_MAX
from headgate.app.auth.usage import Usages
from headgate.app.backends.port import Backend
from headgate.engine.clock import Clock

_SLEEP_S_MAX = 60.0
"""No timer sleeps for longer: the clock that says when a credential ends may be set."""


class Expiry:
    def __init__(self, principal: Principal, clock: Clock) -> None:
        self._principal = principal
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._sleep()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sleep(self) -> None:
        expires_at_ms = self._principal.expires_at_ms
        if expires_at_ms is not None:
            left_s = max((expires_at_ms - self._clock.wall_ms()) / 1000, 0.0)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(min(left_s, _SLEEP_S_MAX), self._look)

    def _look(self) -> None:
        self._timer = None
        if self._principal.is_expired(self._clock):
            self._principal.end("The credential has expired.")
        else:
            self._sleep()


KNOWN_MAX = 10_000
"""Credentials that are remembered as verified."""

Key = TypeVar("Key", bytes, str)

_KEY_PREFIX = "hg_"
_SCHEME = "bearer "
_KEY = re.compile(rb"[Bb]earer hg_")
_SPELLING = re.compile(rb"[Bb]earer \S+")
"""The only remembered spelling; or else one credential would be there many times."""

_LENGTH_MAX = SIZE_BYTES_MAX + 256
"""Of a credential with its scheme: what is longer is none, and is not even looked for."""

_INVALID = "The credential is not valid."
_WITHDRAWN = "The key that signed the token has been withdrawn."


class Verifier(Protocol):
    def verify(self, token: str, now_ms: int) -> Principal:
        """Return the principal of a credential; raises Unauthenticated if it is not valid."""
        ...


class SignerVerifier(Verifier, Protocol):
    def knows(self, key: str | None) -> bool:
        """Tell whether tokens are verified with a key of this label; None: one without label."""
        ...


class KeyVerifier(Verifier, Protocol):
    @property
    def is_configured(self) -> bool: ...


class Authenticator:
    def __init__(
        self,
        backend: Backend,
        *,
        keys: KeyVerifier,
        tokens: SignerVerifier | None,
        tickets: Tickets,
        clock: Clock,
        usages: Usages,
        audit: Audit,
        bad_credentials: BadCredentials | None = None,
        anonymous: Collection[Right] | None = None,
        opened: Collection[str] = (),
    ) -> None:
        """Let principals use a backend.

        `bad_credentials` None means the default rate. `anonymous` are the rights of requests
        without a credential; None allows them nothing, or everything where there are no
        credentials. `opened` are the settings that open operations to everybody.
        """
        self._backend = backend
        self._keys = keys
        self._tokens = tokens
        self.tickets = tickets
        self._clock = clock
        self._usages = usages
        self._audit = audit
        if bad_credentials is None:
            bad_credentials = BadCredentials(lambda: clock.monotonic_ms() / 1000)
        self._bad = bad_credentials
        self._opened = frozenset(opened)
        self._home: Access | None = None
        self._is_allowed = anonymous is not None
        nobody = Principal("anonymous", tuple(anonymous or ()), is_anonymous=True)
        self._anonymous = Access(backend, nobody, audit)
        self._by_header: dict[bytes, Access] = {}
        self._by_ticket: dict[str, Access] = {}
        self._of_tokens: WeakSet[Principal] = WeakSet()
        if not self._has_any():
            self._home = Access(backend, home(), audit)
        self.for_all: Access | None = None if usages.are_for_all else self._home
        """The access of every request; None: each has to present a credential or an origin."""

    @property
    def is_open(self) -> bool:
        """Tell whether everybody may do everything, because there are no credentials."""
        return self._home is not None

    def look_again(self) -> None:
        """Check whether there are credentials now; from then on they are required, permanently."""
        if self._home is not None and self._has_any():
            self._home.principal.end("The gateway now requires a credential.")
            self._home = self.for_all = None

    def anonymous(self, served: Served | None = None) -> Access:
        """Return the access of a request without a credential."""
        access = self._home or self._anonymous
        if served is None or not self._usages.are_for_all:
            return access
        usage = self._usages.of_address(served.address)
        return Access(self._backend, access.principal, self._audit, usage)

    def by_header(self, value: bytes) -> Access:
        """Return the access for an `Authorization` header.

        Raises Unauthenticated for an invalid credential, which is never treated as none, and
        TooManyBadCredentials if too many invalid ones come from the same network.
        """
        if self._home is not None:
            return self._home
        access = self._by_header.get(value) if len(value) <= _LENGTH_MAX else None
        if access is None or not self._is_good(access):
            access = self._access(self._verify_header, value, is_key=_KEY.match(value) is not None)
            if _SPELLING.fullmatch(value):
                _remember(self._by_header, value, access)
        return access

    def by_ticket(self, ticket: str) -> Access:
        if self._home is not None:
            return self._home
        access = self._by_ticket.get(ticket) if len(ticket) <= _LENGTH_MAX else None
        if access is None or not self._is_good(access):
            access = self._access(self._verify_ticket, ticket)
            _remember(self._by_ticket, ticket, access)
        return access

    def by_token(self, token: str) -> Access:
        return self.by_header(_SCHEME.encode() + token.encode("latin-1", errors="replace"))

    def now_ms(self) -> int:
        """Return unix time, by the clock that credentials end by."""
        return self._clock.wall_ms()

    def verify(self, token: str) -> Principal:
        now_ms = self._clock.wall_ms()
        if token.startswith(_KEY_PREFIX):
            return self._keys.verify(token, now_ms)
        if self.tickets.knows(token):
            return self._verify_ticket(token)
        if self._tokens is None:
            raise Unauthenticated(_INVALID)
        principal = self._tokens.verify(token, now_ms)
        self._of_tokens.add(principal)
        return principal

    def end_tokens(self, keys: Collection[str]) -> None:
        for principal in list(self._of_tokens):
            if principal.key in keys:
                principal.end(_WITHDRAWN)

    def check(self, access: Access, needs: Needs) -> None:
        """Refuse an operation to a principal without any right of its kind."""
        if needs.opened_by is None or needs.opened_by not in self._opened:
            access.check(needs.verbs)

    def forget(self) -> None:
        """Let all credentials be verified again; connections that they opened stay open."""
        self._by_header.clear()
        self._by_ticket.clear()

    def at_end(self, principal: Principal, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back once a credential has ended, for any reason; return a function to cancel that.

        The callback is called once, and not before this returns.
        """
        forget = principal.at_end(callback)
        if principal.ending is not None:
            forget()
            return asyncio.get_running_loop().call_soon(callback).cancel
        if principal.expires_at_ms is None:
            return forget
        expiry = Expiry(principal, self._clock)

        def forget_both() -> None:
            expiry.cancel()
            forget()

        return forget_both

    def _verify_header(self, value: bytes) -> Principal:
        if len(value) > _LENGTH_MAX:
            raise Unauthenticated(_INVALID)
        text = value.decode("latin-1")
        if text[: len(_SCHEME)].lower() != _SCHEME:
            raise Unauthenticated("Send the header `Authorization: Bearer` with a key or a token.")
        return self.verify(text[len(_SCHEME) :].strip())

    def _verify_ticket(self, ticket: str) -> Principal:
        principal = self.tickets.verify(ticket, self._anonymous.principal)
        if principal.parent is None:  # of a token, which would perhaps be refused by now
            if self._tokens is None or not self._tokens.knows(principal.key):
                raise Unauthenticated(_WITHDRAWN)
            self._of_tokens.add(principal)
        return principal

    def _access(
        self, verify: Callable[[Key], Principal], credential: Key, *, is_key: bool = False
    ) -> Access:
        address = served_address()
        wait_s = 0.0 if address is None else self._bad.wait_s(address)
        if wait_s and not (is_key or self._bad.takes_look()):
            raise TooManyBadCredentials(wait_s)
        try:
            principal = verify(credential)
        except Unauthenticated as error:
            if wait_s:
                raise TooManyBadCredentials(wait_s) from None
            if address is not None:
                self._bad.note(address)
            self._audit.denial(error, None, None)
            raise
        usage = self._usages.of(principal.id, principal.limits)
        return Access(self._backend, principal, self._audit, usage)

    @contextmanager
    def watching(self, principal: Principal) -> Iterator[None]:
        """End a credential on time during the context: then requests in its name fail."""
        forget = self.at_end(principal, lambda: None)
        try:
            yield
        finally:
            forget()

    def _is_good(self, access: Access) -> bool:
        principal = access.principal
        return principal.ending is None and not principal.is_expired(self._clock)

    def _has_any(self) -> bool:
        return self._is_allowed or self._keys.is_configured or self._tokens is not None


def _remember(known: dict[Key, Access], credential: Key, access: Access) -> None:
    if len(known) >= KNOWN_MAX:
        del known[next(iter(known))]  # the oldest
    known[credential] = access
