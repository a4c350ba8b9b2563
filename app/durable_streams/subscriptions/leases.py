"""Who works on a subscription: claims, acknowledgements, releases (7.2, 7.3)."""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from headgate.app.backends.port import Perform
from headgate.app.durable_streams.configuration import ATTEMPTS_MAX
from headgate.app.durable_streams.protocol import parse_offset
from headgate.app.durable_streams.subscriptions.definition import SubscriptionFault, names_of
from headgate.app.durable_streams.subscriptions.signing import SigningKey, TokenClaim
from headgate.app.durable_streams.subscriptions.store import (
    LINKS_MAX,
    Stored,
    StreamLink,
    StreamTails,
    SubscriptionState,
    WakePhase,
    change,
    has_room,
    is_linked_by_pattern,
    is_pull,
    load,
    status_of,
    tail_of,
)
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamsChanged

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
                text = "a subscription of webhooks is not claimed"
                raise SubscriptionFault(409, "INVALID_REQUEST", text)
            if state.phase is WakePhase.HELD and state.has_lease(self._now_ms):
                raise SubscriptionFault(
                    409,
                    "ALREADY_CLAIMED",
                    "another worker has claimed it",
                    current_holder=state.holder,
                    generation=state.generation,
                )
            status = await status_of(self._perform, stored)
            if not status.pending:
                raise SubscriptionFault(409, "NO_PENDING_WORK", "there is nothing to do")
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
                text = f"a subscription has {LINKS_MAX} streams by their paths at most"
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
        raise SubscriptionFault(409, "FENCED", "the subscription is changed all the time")

    def _check_token(self, subscription: str, token: str | None, wake: Wake) -> None:
        """Check a token before anything is looked up: it comes from anybody."""
        self._key.check(token, TokenClaim(subscription, wake.generation), self._now_ms // 1000)


def _check_current(stored: Stored, wake: Wake) -> None:
    state = stored.state
    is_current = (state.generation, state.wake_id) == (wake.generation, wake.wake_id)
    if state.phase is WakePhase.IDLE or not is_current:
        raise SubscriptionFault(409, "FENCED", "the wake is over")


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
            raise SubscriptionFault(409, "INVALID_OFFSET", "no linked stream has come so far")
        if place > link.acked:
            moved[name] = link._replace(acked=place)
    return moved
