"""Store: pushes as they are defined and kept, and their changes, one after the other."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, cast

import msgspec
from msgspec.structs import asdict, replace

from headgate.app.automation.records import append_newest, attributes_of, check_share, create_with
from headgate.app.backends.port import Perform
from headgate.app.wire.names import text_of
from headgate.app.wire.pushes import (
    ATTEMPTS_DAYS,
    BATCH_MAX,
    CONCURRENCY,
    DISABLE_AFTER_MS,
    TIMEOUT_MS,
    PushAttempt,
    PushBody,
    PushPhase,
    SignatureKind,
)
from headgate.engine.config import Patch, StreamConfig
from headgate.engine.entry import MAX_ID, Draft, Entry, EntryId
from headgate.engine.errors import StreamExists, StreamNotFound, StreamsChanged
from headgate.engine.limits import PATTERN_GROUPS_MAX
from headgate.engine.patterns import literal_prefix, matcher
from headgate.engine.requests.deliveries import MissingGroups
from headgate.engine.requests.entries import Add, Range, Trim, TrimTo
from headgate.engine.requests.keyspace import NameFilter
from headgate.engine.requests.streams import (
    AttributeChange,
    ChangeAttributes,
    DeleteStream,
    DescribeStream,
    ListStreams,
    UpdateStream,
)

PREFIX = b"__push:"
PATTERN_PREFIX = PREFIX + b"match:"

PUSHES_MAX = 1_000
"""Pushes of a gateway, and of all gateways over the same servers."""

PATTERN_PUSHES_MAX = PATTERN_GROUPS_MAX // 2
"""Of them over patterns: each takes one of the groups over patterns that may be in use."""


class PushDefinition(msgspec.Struct, frozen=True):
    """The definition of a push without its URL, which is among its secrets."""

    concurrency: int = CONCURRENCY  # requests at a time
    timeout_ms: int = TIMEOUT_MS  # of a request
    body: PushBody = PushBody.ENTRY
    batch_max: int = BATCH_MAX  # entries of a request that has several
    signature: SignatureKind = SignatureKind.HMAC
    disable_after_ms: int = DISABLE_AFTER_MS  # of nothing but failures
    attempts_days: int = ATTEMPTS_DAYS  # that attempts are kept; 0: they are not

    @property
    def entries_max(self) -> int:
        return self.batch_max if self.body.is_batch else 1


class PushPlace(NamedTuple):
    """The group that is pushed: of a stream, or of all streams that match a pattern."""

    stream: bytes  # or the pattern
    group: bytes
    is_pattern: bool = False

    @property
    def name(self) -> bytes:
        """Return the name of the stream that keeps the push."""
        prefix = PATTERN_PREFIX if self.is_pattern else PREFIX
        return prefix + digest_of(self.stream, self.group)[:32].encode()

    @property
    def names(self) -> dict[str, str]:
        """Return the names as they are shown."""
        kind = "match" if self.is_pattern else "stream"
        return {kind: text_of(self.stream), "group": text_of(self.group)}


class PushedGroups(msgspec.Struct, frozen=True):
    """What a push over a pattern reads, as in `ReadGroups`."""

    only: NameFilter  # the streams in which whoever set it could set a push
    weights: dict[bytes, int] = {}
    create: MissingGroups | None = None

    def names_for(self, pattern: bytes) -> NameFilter:
        """Return the names of the streams that may be read by a pattern, and maybe more."""
        return self.only.within(NameFilter(prefixes=(literal_prefix(pattern),)))

    def since(self, before: PushedGroups | None) -> PushedGroups:
        """Return what is read by a push that is set anew: streams come later than it first was."""
        create, old = self.create, None if before is None else before.create
        if create is None or old is None:
            return self
        return replace(self, create=create._replace(since_ms=old.since_ms))


class PushRecord(msgspec.Struct, frozen=True):
    stream: bytes  # or the pattern
    group: bytes
    definition: PushDefinition
    sealed: str  # its `PushSecrets`, encrypted: another text whenever a user sets something
    created_at_ms: int
    retry_count: int = 0  # how often a user wanted what failed at once
    is_paused: bool = False
    failing_since_ms: int | None = None
    failures: int = 0  # requests, one after the other
    disabled_at_ms: int | None = None
    disabled_reason: str | None = None
    maker: str | None = None  # in whose share it is; None: in that of the operators
    groups: PushedGroups | None = None  # None: it is the push of one stream

    @property
    def place(self) -> PushPlace:
        return PushPlace(self.stream, self.group, self.groups is not None)

    @property
    def name(self) -> bytes:
        return self.place.name

    @property
    def is_running(self) -> bool:
        return not self.is_paused and self.disabled_at_ms is None

    def is_set_anew(self, before: PushRecord) -> bool:
        facts = self.sealed, self.retry_count, self.is_running
        return facts != (before.sealed, before.retry_count, before.is_running)

    @property
    def phase(self) -> PushPhase:
        """Return the phase, as far as the stored push tells it."""
        if self.disabled_at_ms is not None:
            return PushPhase.DISABLED
        if self.is_paused:
            return PushPhase.PAUSED
        return PushPhase.ACTIVE if self.failing_since_ms is None else PushPhase.FAILING


class PushCounts(msgspec.Struct, frozen=True):
    """Counts since the push was created, at most a second old."""

    delivered: int = 0  # entries that were acknowledged
    failed: int = 0  # requests that were not


def digest_of(*names: bytes) -> str:
    """Return a digest of names that is unambiguous about where each name ends."""
    digest = hashlib.sha256()
    for name in names:
        digest.update(b"%d:%b" % (len(name), name))
    return digest.hexdigest()


CHANGES = b"__push"
"""Stream of the changes: each entry names the stream of a push that has changed."""

ANSWERS_SHOWN = 50
"""Attempts in the description of a push."""

ATTEMPTS_KEPT = 10_000
"""Attempts of a push, each with less than 10 KiB, and mostly with a few hundred bytes."""

_DAY_MS = 86_400_000
_SCANNED_AT_ONCE, _SCANS_MAX = 100, 50
_CHANGES_KEPT = 2_000
_TRIES_MAX = 10
_READ_AT_ONCE = 100

_PUSH, _COUNTS, _TEST = b"push", b"counts", b"test"
_CHANGED = b"changed"


class StoredPush(NamedTuple):
    push: PushRecord
    raw: bytes
    counts: PushCounts

    @property
    def name(self) -> bytes:
        return self.push.name


class PushAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attempt of a push: a request, and what came of it."""

    at_ms: int
    took_ms: int
    webhook_id: str
    entry_count: int
    status: int | None  # None: there was no answer
    error: str | None = None  # why it is none that acknowledges
    excerpt: str | None = None  # the beginning of the answer
    retry_after_s: int | None = None  # the receiver wants nothing for so long
    stream: str = ""
    ids: list[str] = []
    url: str = ""  # without what may be secret
    headers: dict[str, str] = {}  # likewise
    next_at_ms: int | None = None  # None: there is none, or it is not known

    def names(self, entry_id: EntryId | None) -> bool:
        """Return whether it is an attempt of an entry; None: of any."""
        return entry_id is None or str(entry_id) in self.ids

    @property
    def wire(self) -> PushAttempt:
        return cast("PushAttempt", asdict(self))


async def load(perform: Perform, name: bytes) -> StoredPush | None:
    values = await attributes_of(perform, name, [_PUSH, _COUNTS])
    try:
        raw = values[_PUSH]
        push = msgspec.json.decode(raw, type=PushRecord)
    except (KeyError, msgspec.DecodeError):  # it is gone, or somebody else made the stream
        return None
    if push.name != name:  # it came here with a stream that was given another name
        return None
    counts = values.get(_COUNTS)
    decoded = PushCounts() if counts is None else msgspec.json.decode(counts, type=PushCounts)
    return StoredPush(push, raw, decoded)


async def load_page(
    perform: Perform, after: bytes | None, limit: int, prefix: bytes = PREFIX
) -> tuple[list[StoredPush], bytes | None]:
    """Return up to `limit` pushes and where to continue; None at the end."""
    infos = await perform(ListStreams(prefix, after, limit + 1))
    is_last, infos = len(infos) <= limit, infos[:limit]
    pushes = list[StoredPush]()
    for begin in range(0, len(infos), _READ_AT_ONCE):
        names = [info.name for info in infos[begin : begin + _READ_AT_ONCE]]
        loaded = await asyncio.gather(*(load(perform, name) for name in names))
        pushes += [stored for stored in loaded if stored is not None]
    return pushes, None if is_last else infos[-1].name


async def streams_of(perform: Perform, push: PushRecord) -> AsyncIterator[bytes]:
    """Yield the streams that a push reads, or would if they had the group."""
    if push.groups is None:
        yield push.stream
        return
    matches, after = matcher(push.stream), None
    prefix = literal_prefix(push.stream)
    while infos := await perform(ListStreams(prefix, after, _READ_AT_ONCE, push.groups.only)):
        for info in infos:
            if info.group_count and matches(info.name):
                yield info.name
        await asyncio.sleep(0)  # there may be many more
        after = infos[-1].name


async def attempts(
    perform: Perform,
    name: bytes,
    limit: int = ANSWERS_SHOWN,
    *,
    before: EntryId | None = None,
    of: EntryId | None = None,
) -> tuple[list[PushAnswer], EntryId | None]:
    """Return up to `limit` attempts, newest first, and where to continue; None at the end.

    `of` is the id of an entry: attempts of others are left out. Only some thousand are looked at.
    """
    found, end = list[PushAnswer](), MAX_ID if before is None else before.previous()
    for _ in range(_SCANS_MAX):
        try:
            scan = Range(name, end=end, limit=_SCANNED_AT_ONCE, reverse=True)
            entries = await perform(scan)
        except StreamNotFound:
            return [], None
        for entry in entries:
            answer = _answer_of(entry)
            if answer is not None and answer.names(of):
                found.append(answer)
                if len(found) == limit:
                    return found, entry.id
        if len(entries) < _SCANNED_AT_ONCE:
            return found, None
        end = entries[-1].id.previous()
        await asyncio.sleep(0)  # each entry may name a batch
    return found, end.next()


def _answer_of(entry: Entry) -> PushAnswer | None:
    try:
        return msgspec.json.decode(entry.fields[1], type=PushAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # somebody else appended it
        return None


async def write(perform: Perform, push: PushRecord, before: StoredPush | None) -> None:
    """Write a push. Raises StreamsChanged if it changed since `before`, or LimitReached."""
    try:
        if before is None:
            await _create(perform, push)
        else:
            await _change(perform, push, before.raw)
    except (StreamExists, StreamNotFound):
        raise StreamsChanged from None
    await announce(perform, push.name)


async def change(
    perform: Perform, name: bytes, make: Callable[[PushRecord], PushRecord]
) -> PushRecord | None:
    """Change a push if it still exists; return the new version."""
    for _ in range(_TRIES_MAX):
        stored = await load(perform, name)
        if stored is None:
            return None
        push = make(stored.push)
        if push == stored.push:
            return push
        with suppress(StreamsChanged, StreamNotFound):
            await _change(perform, push, stored.raw)
            if push.is_set_anew(stored.push):
                await announce(perform, name)
            return push
    raise StreamsChanged


async def disable(perform: Perform, name: bytes, reason: str, at_ms: int) -> None:
    await change(
        perform, name, lambda push: replace(push, disabled_at_ms=at_ms, disabled_reason=reason)
    )


async def delete(perform: Perform, name: bytes) -> None:
    if await perform(DeleteStream(name)):
        await announce(perform, name)


async def add_attempts(perform: Perform, name: bytes, new: Sequence[PushAnswer]) -> None:
    drafts = [Draft(None, (b"answer", msgspec.json.encode(answer))) for answer in new]
    trim = TrimTo(max_length=ATTEMPTS_KEPT)
    with suppress(StreamNotFound):
        await append_newest(perform, Add(name, drafts, create_stream=False, trim=trim))


async def limit_attempts(perform: Perform, push: PushRecord) -> None:
    """Let attempts be removed when they are as old as the push wants."""
    days = push.definition.attempts_days
    with suppress(StreamNotFound):
        info = await perform(DescribeStream(push.name))
        if days == 0 and info.length:
            await perform(Trim(push.name, TrimTo(max_length=0)))
        if days and info.config.max_age_ms != days * _DAY_MS:
            age = Patch.of(StreamConfig, max_age_ms=days * _DAY_MS)
            await perform(UpdateStream(push.name, age))


async def add_counts(perform: Perform, name: bytes, delivered: int, failed: int) -> None:
    with suppress(StreamNotFound):
        raw = (await attributes_of(perform, name, [_COUNTS])).get(_COUNTS)
        before = PushCounts() if raw is None else msgspec.json.decode(raw, type=PushCounts)
        counts = PushCounts(before.delivered + delivered, before.failed + failed)
        await perform(_changed_to(name, _COUNTS, msgspec.json.encode(counts)))


async def begin_test(perform: Perform, name: bytes, now_ms: int, until_ms: int) -> bool:
    """Note that a test runs, until it ends or its time is over; return false if one does."""
    before = (await attributes_of(perform, name, [_TEST])).get(_TEST)
    if before is not None and int(before) > now_ms:
        return False
    with suppress(StreamsChanged, StreamNotFound):
        change = AttributeChange({_TEST: b"%d" % until_ms}, {_TEST: before})
        await perform(ChangeAttributes(name, change))
        return True
    return False


async def end_test(perform: Perform, name: bytes, until_ms: int) -> None:
    """End the test that `begin_test` noted, unless another one has begun after its time."""
    with suppress(StreamsChanged, StreamNotFound):
        change = AttributeChange({_TEST: None}, {_TEST: b"%d" % until_ms})
        await perform(ChangeAttributes(name, change))


async def announce(perform: Perform, name: bytes) -> None:
    trim = TrimTo(max_length=_CHANGES_KEPT)
    await append_newest(perform, Add(CHANGES, [Draft(None, (_CHANGED, name))], trim=trim))


def changed_names(entries: Sequence[Entry]) -> set[bytes]:
    return {entry.fields[1] for entry in entries if entry.fields[0] == _CHANGED}


async def _create(perform: Perform, push: PushRecord) -> None:
    kinds = [("pushes", PREFIX, PUSHES_MAX)]
    if push.groups is not None:
        kinds.append(("pushes over patterns", PATTERN_PREFIX, PATTERN_PUSHES_MAX))
    for what, prefix, limit in kinds:
        count = len(await perform(ListStreams(prefix, None, limit)))
        await check_share(what, limit, count, push.maker, partial(_makers, perform, prefix))
    change = AttributeChange({_PUSH: msgspec.json.encode(push)}, {_PUSH: None})
    await create_with(perform, push.name, change)


async def _makers(perform: Perform, prefix: bytes) -> AsyncIterator[str]:
    after = None
    while True:
        pushes, after = await load_page(perform, after, _READ_AT_ONCE, prefix)
        for stored in pushes:
            yield stored.push.maker or ""
        if after is None:
            return


async def _change(perform: Perform, push: PushRecord, raw: bytes) -> None:
    await perform(_changed_to(push.name, _PUSH, msgspec.json.encode(push), raw))


def _changed_to(
    name: bytes, attribute: bytes, value: bytes, before: bytes | None = None
) -> ChangeAttributes:
    expected = {} if before is None else {attribute: before}
    return ChangeAttributes(name, AttributeChange({attribute: value}, expected))
