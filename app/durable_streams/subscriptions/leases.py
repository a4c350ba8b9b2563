"""Who works on a subscription: claims, acknowledgements, releases (7.2, 7.3)."""

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import jwt
from jwt.types import Options
from msgspec.structs import replace

from headgate.app.automation.records import attributes_of
from headgate.app.automation.webhooks import SEED_BYTES, WebhookKey, text_of_bytes
from headgate.app.backends.port import Perform
from headgate.app.durable_streams.configuration import ATTEMPTS_MAX
from headgate.app.durable_streams.protocol import CONTROL, parse_offset
from headgate.app.durable_streams.subscriptions.store import (
    LINKS_MAX,
    Stored,
    StreamLink,
    StreamTails,
    SubscriptionFault,
    SubscriptionState,
    WakePhase,
    change,
    has_room,
    is_linked_by_pattern,
    is_pull,
    load,
    names_of,
    status_of,
    tail_of,
)
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamExists, StreamsChanged
from headgate.engine.requests.streams import AttributeChange, CreateStream

# Signing: the key of webhooks, and the tokens of those who work on a wake.
#
# The key is an attribute of the stream `__ds`, so all gateways over the same streams have it.
# Whoever can read a whole data directory, or the keys of a Redis server, can read it.

KEYS = CONTROL.encode()
_ATTRIBUTE = b"signing-key"
_TOKEN_S_MAX = 86_400
_TOKEN_LENGTH_MAX = 2_048
_ALGORITHM = "HS256"
_OPTIONS: Options = {"verify_exp": False, "require": ["exp", "sub", "gen"]}


class TokenClaim(NamedTuple):
    subscription: str
    generation: int


class SigningKey:
    def __init__(self, seed: bytes) -> None:
        """Use 32 random bytes."""
        self._key = WebhookKey(seed, "ds")
        self._secret = hashlib.sha256(b"tokens of subscriptions" + seed).digest()

    @property
    def kid(self) -> str:
        return self._key.kid

    def jwks(self) -> bytes:
        return self._key.jwks()

    def signature(self, body: bytes, at_s: int) -> str:
        """Return the header `Webhook-Signature` of a body sent at a unix time."""
        signed = self._key.sign(b"%d.%b" % (at_s, body))
        return f"t={at_s},kid={self._key.kid},ed25519={text_of_bytes(signed)}"

    def token(self, claim: TokenClaim, at_s: int) -> str:
        facts = {"sub": claim.subscription, "gen": claim.generation, "exp": at_s + _TOKEN_S_MAX}
        return jwt.encode(facts, self._secret, _ALGORITHM)

    def check(self, token: str | None, claim: TokenClaim, at_s: int) -> None:
        """Raise SubscriptionFault unless a token belongs to a wake."""
        facts = self._facts(token)
        if facts is None or facts["sub"] != claim.subscription:
            raise SubscriptionFault(401, "TOKEN_INVALID", "the token is not valid here")
        if facts["exp"] < at_s:
            raise SubscriptionFault(401, "TOKEN_EXPIRED", "the token has expired")
        if facts["gen"] != claim.generation:
            raise SubscriptionFault(409, "FENCED", "the wake of the token has ended")

    def _facts(self, token: str | None) -> dict[str, Any] | None:
        if token is None or len(token) > _TOKEN_LENGTH_MAX:
            return None
        try:
            return jwt.decode(token, self._secret, algorithms=[_ALGORITHM], options=_OPTIONS)
        except jwt.InvalidTokenError:
            return None


async def known_key(perform: Perform) -> SigningKey | None:
    seed = (await attributes_of(perform, KEYS, [_ATTRIBUTE])).get(_ATTRIBUTE)
    return None if seed is None else SigningKey(seed)


async def signing_key(perform: Perform) -> SigningKey:
    """Return the key of all gateways over these streams; create it if needed."""
    key = await known_key(perform)
    if key is None:
        change = AttributeChange({_ATTRIBUTE: secrets.token_bytes(SEED_BYTES)})
        with suppress(StreamExists):  # with other settings than new streams have
            await perform(CreateStream(KEYS, attributes=change))
        key = await known_key(perform)
    if key is None:
        raise SubscriptionFault(
            409, "INVALID_REQUEST", "the stream `__ds` belongs to another program"
        )
    return key


T = TypeVar("T")


class Wake(NamedTuple):
    wake_id: str
    generation: int


class Acknowledgement(NamedTuple):
    wake: Wake
    acks: Sequence[tuple[str, str]]  # paths and offsets
    is_done: bool


class ClaimedSubscription(NamedTuple):
    state: SubscriptionState
    status: StreamTails


class WakeLeases:
    def __init__(self, perform: Perform, key: SigningKey, now_ms: int) -> None:
        self._perform, self._key, self._now_ms = perform, key, now_ms

    async def claim(self, subscription: str, worker: str) -> ClaimedSubscription:
        """Give a worker the lease if it is free and there is work; otherwise SubscriptionFault."""

        async def act(stored: Stored) -> ClaimedSubscription:
            state = stored.state
            if not is_pull(state):
                text = "a webhook subscription cannot be claimed"
                raise SubscriptionFault(409, "INVALID_REQUEST", text)
            if state.phase is WakePhase.HELD and state.has_lease(self._now_ms):
                raise SubscriptionFault(
                    409,
                    "ALREADY_CLAIMED",
                    "another worker has claimed the subscription",
                    current_holder=state.holder,
                    generation=state.generation,
                )
            status = await status_of(self._perform, stored)
            if not status.pending:
                raise SubscriptionFault(409, "NO_PENDING_WORK", "there is no pending work")
            is_new = state.phase is not WakePhase.WAKING
            claimed = replace(
                state,
                phase=WakePhase.HELD,
                generation=state.generation + is_new,
                wake_id=new_wake_id() if is_new else state.wake_id,
                holder=worker,
                lease_until_ms=self._now_ms + state.definition.lease_ms,
                next_attempt_ms=None,
            )
            await change(self._perform, stored, claimed, "claimed", status.news(stored))
            return ClaimedSubscription(claimed, status)

        return await self._decide(subscription, act)

    async def acknowledge(
        self, subscription: str, token: str | None, report: Acknowledgement
    ) -> bool:
        """Move cursors; once the work is done, return whether there is more."""
        self._check_token(subscription, token, report.wake)

        async def act(stored: Stored) -> bool:
            _check_current(stored, report.wake)
            status = await status_of(self._perform, stored)
            moved = moved_links(status, _acks_of(report.acks))
            links = {**status.links, **moved}
            if report.is_done:
                state = stored.state.idle(failures=0, next_attempt_ms=None)
            else:
                until_ms = self._now_ms + stored.state.definition.lease_ms
                state = replace(stored.state, lease_until_ms=until_ms)
            event = "done" if report.is_done else "extended"
            await change(self._perform, stored, state, event, {**status.news(stored), **moved})
            return report.is_done and bool(status._replace(links=links).pending)

        return await self._decide(subscription, act)

    async def release(self, subscription: str, token: str | None, wake: Wake) -> None:
        """Give the lease back; raises SubscriptionFault if the wake is over."""
        self._check_token(subscription, token, wake)

        async def act(stored: Stored) -> None:
            _check_current(stored, wake)
            await change(self._perform, stored, stored.state.idle(), "released")

        await self._decide(subscription, act)

    async def link(self, subscription: str, paths: list[str]) -> None:
        """Link streams at their current ends."""
        names = [name.encode() for name in names_of(paths)]

        async def act(stored: Stored) -> None:
            wanted = dict[bytes, StreamLink]()
            for name in names:
                link = stored.links.get(name)
                acked = await tail_of(self._perform, name) if link is None else link.acked
                wanted[name] = StreamLink(acked, is_explicit=True)
            links = {**stored.links, **wanted}
            if not has_room([name for name, link in links.items() if link.is_explicit]):
                text = f"a subscription may link at most {LINKS_MAX} streams by path"
                raise SubscriptionFault(409, "LIMIT_REACHED", text)
            await change(self._perform, stored, stored.state, "linked", wanted)

        await self._decide(subscription, act)

    async def unlink(self, subscription: str, path: str) -> None:
        """Remove an explicit link; one by the pattern stays."""
        [text] = names_of([path])
        name = text.encode()

        async def act(stored: Stored) -> None:
            link = stored.links.get(name)
            if link is None or not link.is_explicit:
                return
            is_matched = is_linked_by_pattern(stored.state, name)
            left = link._replace(is_explicit=False) if is_matched else None
            await change(self._perform, stored, stored.state, "unlinked", {name: left})

        await self._decide(subscription, act)

    async def _decide(self, subscription: str, act: Callable[[Stored], Awaitable[T]]) -> T:
        """Act on a subscription, and again if it has changed meanwhile."""
        for _ in range(ATTEMPTS_MAX):
            try:
                return await act(await load(self._perform, subscription))
            except StreamsChanged:
                continue
        raise SubscriptionFault(409, "FENCED", "the subscription changes too often")

    def _check_token(self, subscription: str, token: str | None, wake: Wake) -> None:
        """Check a token before anything is looked up: it comes from anybody."""
        self._key.check(token, TokenClaim(subscription, wake.generation), self._now_ms // 1000)


def _check_current(stored: Stored, wake: Wake) -> None:
    state = stored.state
    is_current = (state.generation, state.wake_id) == (wake.generation, wake.wake_id)
    if state.phase is WakePhase.IDLE or not is_current:
        raise SubscriptionFault(409, "FENCED", "the wake has ended")


def new_wake_id() -> str:
    return f"w_{secrets.token_hex(12)}"


def _acks_of(acks: Sequence[tuple[str, str]]) -> dict[bytes, EntryId]:
    places = dict[bytes, EntryId]()
    for path, offset in acks:
        [name] = names_of([path])
        try:
            places[name.encode()] = parse_offset(offset, pointer="/body/acks")
        except GatewayError as error:
            raise SubscriptionFault(409, "INVALID_OFFSET", str(error)) from None
    return places


def moved_links(status: StreamTails, acks: Mapping[bytes, EntryId]) -> dict[bytes, StreamLink]:
    """Return the links whose cursors move forward; raises SubscriptionFault."""
    moved = dict[bytes, StreamLink]()
    for name, place in acks.items():
        link = status.links.get(name)
        if link is None or place > status.tails[name]:
            raise SubscriptionFault(
                409, "INVALID_OFFSET", "the offset is beyond the end of all linked streams"
            )
        if place > link.acked:
            moved[name] = link._replace(acked=place)
    return moved
