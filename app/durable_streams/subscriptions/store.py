"""Subscriptions as they are stored, and their changes, one after the other."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from headgate.app.auth.access import Access
from headgate.app.automation.records import append_newest, attributes_of, check_share
from headgate.app.backends.port import Perform
from headgate.app.durable_streams.protocol import CONTROL, name_of, path_of
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.errors import LimitReached, StreamError, StreamExists, StreamNotFound
from headgate.engine.requests.entries import Add, TrimTo
from headgate.engine.requests.keyspace import NameFilter, is_shown
from headgate.engine.requests.streams import (
    AttributeChange,
    CreateStream,
    DescribeStream,
    ListStreams,
)
from headgate.engine.threads import this_turn

# Definition: the definition of a subscription, and the paths that it is about.

LEASE_MS = 30_000
_LEASE_MS_MIN, _LEASE_MS_MAX = 1_000, 600_000
_TEXT_MAX = 1_000
_STREAMS_MAX, _STREAMS_BYTES_MAX = 1_000, 128 * 1024
_PATTERN_MAX = 256
_SEGMENTS_MAX, _STARS_MAX = 20, 2
"""Segments of a pattern, and `**` among them: so many names are compared with it."""

_BODY_BYTES_MAX = 2**20
_ITEMS_MAX = 5_000
"""Items of all arrays and objects of a body: reading so many takes 3 ms. Some bodies come from
anybody."""


class WakeKind(StrEnum):
    WEBHOOK = "webhook"
    PULL_WAKE = "pull-wake"


class SubscriptionFault(Exception):
    def __init__(self, status: int, code: str, text: str, **facts: object) -> None:
        super().__init__(text)
        self.status, self.code, self.facts = status, code, facts


def invalid(text: str) -> SubscriptionFault:
    return SubscriptionFault(400, "INVALID_REQUEST", text)


class SubscriptionDefinition(msgspec.Struct, frozen=True):
    kind: WakeKind
    pattern: str | None
    streams: tuple[str, ...]  # names, in order
    webhook_url: str | None
    wake_stream: str | None  # its name
    lease_ms: int
    description: str | None


class _Webhook(msgspec.Struct):
    url: str


class _Body(msgspec.Struct):
    type: WakeKind
    pattern: str | None = None
    streams: list[str] | None = None
    webhook: _Webhook | None = None
    wake_stream: str | None = None
    lease_ttl_ms: int = LEASE_MS
    description: str | None = None


def parse(content: bytes) -> SubscriptionDefinition:
    body = decoded(content, _Body)
    if body.pattern is None and not body.streams:
        raise invalid("a subscription must have a `pattern` or `streams`")
    if body.pattern is not None and not 0 < len(body.pattern) <= _PATTERN_MAX:
        raise invalid(f"a pattern must have 1 to {_PATTERN_MAX} characters")
    if any("*" in part and part not in ("*", "**") for part in (body.pattern or "").split("/")):
        raise invalid("`*` and `**` must be whole segments of a pattern")
    segments = (body.pattern or "").split("/")
    if len(segments) > _SEGMENTS_MAX or segments.count("**") > _STARS_MAX:
        raise invalid(f"a pattern may have at most {_SEGMENTS_MAX} segments and {_STARS_MAX} `**`")
    if (body.type is WakeKind.WEBHOOK) != (body.webhook is not None):
        raise invalid("`webhook` is required for the type webhook, and only allowed there")
    if (body.type is WakeKind.PULL_WAKE) != (body.wake_stream is not None):
        raise invalid("`wake_stream` is required for the type pull-wake, and only allowed there")
    if not _LEASE_MS_MIN <= body.lease_ttl_ms <= _LEASE_MS_MAX:
        raise invalid(f"`lease_ttl_ms` must be from {_LEASE_MS_MIN} to {_LEASE_MS_MAX}")
    if body.description is not None and len(body.description) > _TEXT_MAX:
        raise invalid(f"a description may have at most {_TEXT_MAX} characters")
    names = sorted(set(names_of(body.streams or [])))
    if sum(len(name.encode()) for name in names) > _STREAMS_BYTES_MAX:
        raise invalid(f"the names in `streams` may have at most {_STREAMS_BYTES_MAX} bytes")
    return SubscriptionDefinition(
        body.type,
        body.pattern,
        tuple(names),
        body.webhook.url if body.webhook is not None else None,
        names_of([body.wake_stream])[0] if body.wake_stream is not None else None,
        body.lease_ttl_ms,
        body.description,
    )


def names_of(paths: list[str]) -> list[str]:
    """Return the names of streams from the paths in a body; raises SubscriptionFault."""
    if len(paths) > _STREAMS_MAX:
        raise invalid(f"at most {_STREAMS_MAX} streams are allowed")
    try:
        return [name_of(path).decode() for path in paths]
    except GatewayError as error:
        raise invalid(f"{error}") from None


def decoded(content: bytes, kind: type[Any]) -> Any:
    if len(content) > _BODY_BYTES_MAX or content.count(b",") > _ITEMS_MAX:
        raise SubscriptionFault(413, "INVALID_REQUEST", "the body is too large")
    try:
        return msgspec.json.decode(content or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise invalid(f"the body is invalid: {error}") from None


def literal_prefix(pattern: str) -> str:
    return pattern.partition("*")[0]


def matches(pattern: str, path: str) -> bool:
    """Tell whether a path matches a pattern: `*` is a segment, `**` any number of them.

    Of earlier stars only the last `**` can still take more, so this takes at most the product of
    the lengths.
    """
    wanted, there = pattern.split("/"), path.split("/")
    at, star, taken, begin = 0, None, 0, 0
    while begin < len(there):
        if at < len(wanted) and wanted[at] == "**":
            star, taken = at, begin
            at += 1
        elif at < len(wanted) and wanted[at] in ("*", there[begin]):
            at, begin = at + 1, begin + 1
        elif star is not None:
            taken += 1
            at, begin = star + 1, taken
        else:
            return False
    return all(segment == "**" for segment in wanted[at:])


PREFIX = f"{CONTROL}:".encode()

_STATE = b"state"
_LINK = b"link:"
_EVENTS_KEPT = 1_000
_PAGE = 1_000
_EVENT_MAX = 300

LINKS_MAX = 2_000
"""Streams of a subscription by its pattern, and as many besides by their paths: their cursors are
attributes of a stream."""

_LINKS_BYTES_MAX, _LINK_BYTES = 384 * 1024, 64
"""Bytes of the links of a subscription by its pattern, and as many besides by their paths. Each
takes this beside its name. With the state that is less than the attributes of a stream may have."""

SUBSCRIPTIONS_MAX = 1_000
"""Streams below the prefix, beyond which no other subscription is made."""


class WakePhase(StrEnum):
    IDLE = "idle"
    WAKING = "waking"  # a worker was told
    HELD = "held"  # a worker has claimed it


class Reach(msgspec.Struct, frozen=True):
    """The streams that its creator may read; the pattern links no others."""

    names: list[bytes]
    prefixes: list[bytes]


class SubscriptionState(msgspec.Struct, frozen=True):
    definition: SubscriptionDefinition
    root: str  # URL below which its streams are
    created_at_ms: int
    reach: Reach | None = None  # None: all streams
    generation: int = 0
    phase: WakePhase = WakePhase.IDLE
    wake_id: str | None = None
    holder: str | None = None
    lease_until_ms: int | None = None
    failures: int = 0  # of deliveries, one after the other
    next_attempt_ms: int | None = None
    maker: str | None = None  # in whose share it is; None: in that of the operators
    woken_at_ms: int | None = None  # since when workers that claim it are told of its wake

    @property
    def only(self) -> NameFilter | None:
        reach = self.reach
        return None if reach is None else NameFilter(frozenset(reach.names), tuple(reach.prefixes))

    def has_lease(self, now_ms: int) -> bool:
        return self.lease_until_ms is not None and self.lease_until_ms > now_ms

    def idle(self, **changes: object) -> "SubscriptionState":
        freed = dict.fromkeys(("wake_id", "holder", "lease_until_ms", "woken_at_ms"))
        return msgspec.structs.replace(self, **{"phase": WakePhase.IDLE, **freed, **changes})


class StreamLink(NamedTuple):
    acked: EntryId  # the last entry that was processed
    is_explicit: bool

    def encoded(self) -> bytes:
        return b"%b %s" % (b"e" if self.is_explicit else b"g", str(self.acked).encode())

    @classmethod
    def decode(cls, value: bytes) -> "StreamLink":
        kind, _, text = value.partition(b" ")
        return cls(EntryId.parse(text.decode()), kind == b"e")


class Stored(NamedTuple):
    id: str
    raw: bytes
    state: SubscriptionState
    links: Mapping[bytes, StreamLink]

    @property
    def name(self) -> bytes:
        return PREFIX + self.id.encode()


class StreamTails(NamedTuple):
    links: dict[bytes, StreamLink]  # with those that are new
    tails: dict[bytes, EntryId]  # ids of their last entries

    @property
    def pending(self) -> list[bytes]:
        return [name for name, link in self.links.items() if self.tails[name] > link.acked]

    def news(self, stored: "Stored") -> dict[bytes, StreamLink | None]:
        """Return the links not stored yet, and None for those whose streams are gone."""
        news: dict[bytes, StreamLink | None] = dict.fromkeys(stored.links.keys() - self.links)
        news.update(each for each in self.links.items() if each[0] not in stored.links)
        return news


async def load(perform: Perform, subscription: str) -> Stored:
    """Return a subscription; raises SubscriptionFault if it is missing or unreadable."""
    attributes = await attributes_of(perform, PREFIX + subscription.encode())
    raw = attributes.get(_STATE)
    if raw is None:
        raise unknown()
    try:
        links = {
            name.removeprefix(_LINK): StreamLink.decode(value)
            for name, value in attributes.items()
            if name.startswith(_LINK)
        }
        state = msgspec.json.decode(raw, type=SubscriptionState)
    except (msgspec.DecodeError, ValueError, StreamError):
        text = "the subscription is damaged: to remove it, delete the stream"
        raise SubscriptionFault(409, "DAMAGED", f"{text} `{CONTROL}:{subscription}`") from None
    return Stored(subscription, raw, state, links)


def unknown() -> SubscriptionFault:
    return SubscriptionFault(404, "SUBSCRIPTION_NOT_FOUND", "there is no such subscription")


async def make(access: Access, subscription: str, state: SubscriptionState) -> None:
    """Store a new subscription, its streams linked at their ends; raises StreamExists."""
    made = Stored(subscription, b"", state, {})
    status = await status_of(access.backend.perform, made)
    links = {name: link._replace(acked=status.tails[name]) for name, link in status.links.items()}
    values = {_STATE: msgspec.json.encode(state), **_encoded(links)}
    create = CreateStream(made.name, attributes=AttributeChange(values))
    created = await access.perform_owned(create)
    if not created.is_new:
        raise StreamExists(made.name)


async def check_room(perform: Perform, subscription: str, maker: str | None) -> None:
    """Raise SubscriptionFault if it is missing and there may be no other one."""
    infos = await perform(ListStreams(PREFIX, limit=SUBSCRIPTIONS_MAX))
    names = [info.name for info in infos]
    if PREFIX + subscription.encode() in names:
        return
    makers = partial(_makers, perform, names)
    try:
        await check_share("subscriptions", SUBSCRIPTIONS_MAX, len(names), maker, makers)
    except LimitReached as error:
        raise SubscriptionFault(409, "LIMIT_REACHED", str(error)) from None


async def _makers(perform: Perform, names: Iterable[bytes]) -> AsyncIterator[str]:
    for name in names:
        with suppress(SubscriptionFault):
            stored = await load(perform, name.removeprefix(PREFIX).decode())
            yield stored.state.maker or ""


async def change(
    perform: Perform,
    stored: Stored,
    state: SubscriptionState,
    event: str,
    links: Mapping[bytes, StreamLink | None] | None = None,
) -> None:
    """Change a subscription's state and links; StreamsChanged if it has changed since."""
    values: dict[bytes, bytes | None] = {_STATE: msgspec.json.encode(state)}
    values.update(_encoded(links or {}))
    append = Add(
        stored.name,
        [_event(event, state)],
        create_stream=False,
        trim=TrimTo(max_length=_EVENTS_KEPT),
        attributes=AttributeChange(values, {_STATE: stored.raw}),
    )
    await append_newest(perform, append)


def _encoded(links: Mapping[bytes, StreamLink | None]) -> dict[bytes, bytes | None]:
    return {_LINK + name: None if link is None else link.encoded() for name, link in links.items()}


def _event(event: str, state: SubscriptionState) -> Draft:
    facts = {"event": event[:_EVENT_MAX], "generation": str(state.generation)}
    if state.holder is not None:
        facts["holder"] = state.holder
    return Draft(None, tuple(part.encode() for pair in facts.items() for part in pair))


async def status_of(perform: Perform, stored: Stored) -> StreamTails:
    definition = stored.state.definition
    tails = await _matching(perform, stored)
    links = {name: link for name, link in stored.links.items() if link.is_explicit}
    for text in definition.streams if not stored.raw else ():
        links[text.encode()] = StreamLink(MIN_ID, is_explicit=True)
    for name in tails:
        links.setdefault(name, stored.links.get(name, StreamLink(MIN_ID, is_explicit=False)))
    for name in links:
        if name not in tails:
            tails[name] = await tail_of(perform, name)
    return StreamTails(links, tails)


async def tail_of(perform: Perform, name: bytes) -> EntryId:
    """Return the last id of a stream, or the least id if there is no such stream."""
    try:
        return (await perform(DescribeStream(name))).last_id
    except StreamNotFound:
        return MIN_ID


async def _matching(perform: Perform, stored: Stored) -> dict[bytes, EntryId]:
    """Return the last ids of the streams that match the pattern and may be linked.

    Beyond `LINKS_MAX` the already linked ones come first, and then the first by name.
    """
    state = stored.state
    linked, others = dict[bytes, EntryId](), dict[bytes, EntryId]()
    if state.definition.pattern is None:
        return linked
    prefix, after, turn = glob_prefix(state.definition.pattern), None, this_turn()
    while True:
        page = await perform(ListStreams(prefix, after, _PAGE, state.only))
        for info in page:
            await turn.pause()
            if is_linked_by_pattern(state, info.name):
                if info.name in stored.links:
                    linked[info.name] = info.last_id
                elif len(others) < LINKS_MAX:
                    others[info.name] = info.last_id
        if len(page) < _PAGE:
            return {**linked, **dict(takewhile(_Room(LINKS_MAX, linked).take, others.items()))}
        after = page[-1].name


class _Room:
    def __init__(self, count: int, links: Iterable[bytes]) -> None:
        self._count, self._size_bytes = count, _LINKS_BYTES_MAX
        for name in links:
            self.take((name, None))

    def take(self, link: tuple[bytes, object]) -> bool:
        self._count -= 1
        self._size_bytes -= len(link[0]) + _LINK_BYTES
        return self._count >= 0 and self._size_bytes >= 0


def has_room(explicit: Sequence[bytes]) -> bool:
    room = _Room(LINKS_MAX, ())
    return all(room.take((name, None)) for name in explicit)


def glob_prefix(pattern: str) -> bytes:
    beginning = literal_prefix(pattern)
    return names_of([beginning])[0].encode() if beginning else b""


def is_linked_by_pattern(state: SubscriptionState, name: bytes) -> bool:
    definition = state.definition
    path = path_of(name)
    return (
        definition.pattern is not None
        and path is not None
        and name != (definition.wake_stream or "").encode()
        and matches(definition.pattern, path)
        and is_shown(name, state.only)
    )


def is_pull(state: SubscriptionState) -> bool:
    """Tell whether workers claim it."""
    return state.definition.kind is WakeKind.PULL_WAKE
