"""Create, fork and delete streams."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.app.durable_streams.configuration import (
    ATTEMPTS_MAX,
    CONFIGURATION,
    DurableStream,
    ForkOrigin,
    Known,
    Stage,
    attributes_of,
    begin_life,
    gone,
    make_room,
)
from headgate.app.durable_streams.content import (
    DATA_FIELD,
    bytes_of,
    drafts_of,
    is_json,
    media_type,
)
from headgate.app.durable_streams.protocol import parse_offset
from headgate.app.durable_streams.reading import check_no_gap
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import Draft, Entry, EntryId
from headgate.engine.errors import (
    LastIdMismatch,
    LimitReached,
    StreamExists,
    StreamNotFound,
    StreamsChanged,
    Unavailable,
)
from headgate.engine.requests.entries import Add, Read, StreamCursor, Trim, TrimTo
from headgate.engine.requests.keyspace import PersistStream
from headgate.engine.requests.streams import (
    AttributeChange,
    ChangeAttributes,
    CloseStream,
    DeleteStream,
    DescribeStream,
)


class Creation(NamedTuple):
    configuration: DurableStream
    body: bytes
    is_closed: bool  # it never gets more than this body


class MadeStream(NamedTuple):
    configuration: DurableStream
    end: EntryId
    is_closed: bool
    is_new: bool


async def create(
    access: Access, stream: bytes, wanted: Creation, *, messages_max: int
) -> MadeStream:
    """Create a stream, unless it exists as requested; GatewayError: another has the path."""
    configuration = wanted.configuration
    drafts = await drafts_of(
        wanted.body, configuration.content_type, messages_max=messages_max, is_new=True
    )
    change = AttributeChange({CONFIGURATION: configuration.encoded()})
    try:
        if wanted.is_closed:
            closing = CloseStream(stream, drafts, attributes=change, is_new=True)
            ids = (await access.perform(closing)).ids
        else:
            ids = (await access.perform(Add(stream, drafts, attributes=change, is_new=True))).ids
    except StreamExists:
        return await existing(access, stream, wanted)
    await begin_life(access, stream, configuration)
    return MadeStream(
        configuration, ids[-1] if ids else EntryId(0, 0), wanted.is_closed, is_new=True
    )


async def existing(access: Access, stream: bytes, wanted: Creation) -> MadeStream:
    """Return an existing stream; raises GatewayError if it is not as requested."""
    access.require([Need((Verb.READ, Verb.APPEND, Verb.MANAGE), stream)])
    there = (await attributes_of(access, stream)).configuration
    info = await access.backend.perform(DescribeStream(stream))
    is_closed = info.closed_at_ms is not None
    if there.state is Stage.DELETED:
        raise _taken("this path belongs to a deleted stream that still has forks")
    if not there.is_like(wanted.configuration):
        raise _taken("the stream exists with another configuration")
    if is_closed != wanted.is_closed:
        state = "closed" if is_closed else "open"
        raise _taken(f"the stream exists and is {state}")
    return MadeStream(there, info.last_id, is_closed, is_new=False)


def _taken(text: str) -> GatewayError:
    return GatewayError("stream_exists", text, pointer="/path/path")


# Forking: a stream that begins with what another has up to an offset (4.2).
#
# 1. The fork is made, as `forking`: to everybody else it is not there.
# 2. The source notes the fork (an attribute with its name), so it knows that it is referred to. A
#    fork of somebody who may only read the source is not noted: it would take room in the source,
#    and hold its path after a DELETE. It has its own copy of everything, so it lacks nothing.
# 3. It gets the entries of the source up to the offset, with their ids: offsets are the same in
#    both.
# 4. With the rest, and the first body, it becomes `made`.
#
# Whoever asks again goes on where an earlier request has ended. So it works over all backends,
# also where two streams are at different servers.

FORK = b"durable-stream:fork:"
"""Attributes of a source that begin so name the streams that were forked from it."""

FORKS_MAX = 1_000
"""Forks of one stream: their names are attributes of it, where its producers need room as well."""

_PAGE_ENTRIES = 1_000
_PAGE_BYTES = 2**20


class Point(NamedTuple):
    """Where a fork leaves its source: behind an entry and a part of the next one."""

    epoch: int  # of the source
    through: EntryId
    part: bytes = b""


async def fork(access: Access, stream: bytes, wanted: Creation, *, messages_max: int) -> MadeStream:
    """Create a fork, unless it exists as requested; an empty content type is the source's."""
    origin = wanted.configuration.origin
    assert origin is not None
    source = origin.stream.encode()
    access.require([Need((Verb.READ,), source)])
    if wanted.is_closed:
        access.require([Need((Verb.MANAGE,), stream)])
    inherited = await _source(access, source)
    configuration = _inheriting(wanted.configuration, inherited.configuration)
    point = await _point(access, source, origin, configuration.content_type, messages_max)
    drafts = await drafts_of(
        wanted.body, configuration.content_type, messages_max=messages_max, is_new=True
    )
    last = [Draft(None, (DATA_FIELD, point.part))] if point.part else []
    wanted = wanted._replace(configuration=configuration)
    begun = _forking(configuration, point)
    try:
        await access.perform(
            Add(stream, [], attributes=AttributeChange({CONFIGURATION: begun}), is_new=True)
        )
    except StreamExists:
        there = (await attributes_of(access, stream)).configuration
        if there.state is not Stage.FORKING or not there.is_like(configuration):
            return await existing(access, stream, wanted)
        begun = there.encoded()
        point = Point(there.source_epoch, EntryId.parse(there.through), point.part)
    try:
        if access.principal.may(Need((Verb.APPEND,), source)):
            await _refer(access, source, stream)
        end = await _copy(access, source, stream, point)
        await _finish(access, stream, wanted, [*last, *drafts], begun, end)
    except (StreamNotFound, GatewayError, LimitReached, LastIdMismatch, StreamsChanged) as error:
        if not await _give_up(access, stream, configuration, begun):  # another request has made it
            return await existing(access, stream, wanted)
        if isinstance(error, LastIdMismatch | StreamsChanged):
            raise _spoiled("another client changed the stream at this path") from None
        raise
    await begin_life(access, stream, configuration)
    through = (await access.backend.perform(DescribeStream(stream))).last_id
    return MadeStream(configuration, through, wanted.is_closed, is_new=True)


async def _finish(
    access: Access,
    stream: bytes,
    wanted: Creation,
    drafts: Sequence[Draft],
    begun: bytes,
    end: EntryId,
) -> None:
    """Make a complete fork visible; raises LastIdMismatch or StreamsChanged."""
    made = wanted.configuration.encoded()
    change = AttributeChange({CONFIGURATION: made}, {CONFIGURATION: begun})
    if wanted.is_closed:
        await access.perform(CloseStream(stream, drafts, None, False, end, attributes=change))
    else:
        await access.perform(Add(stream, drafts, None, False, end, attributes=change))


def _spoiled(text: str) -> GatewayError:
    return GatewayError("stream_exists", text, pointer="/path/path")


async def _give_up(
    access: Access, stream: bytes, configuration: DurableStream, begun: bytes
) -> bool:
    """Delete a fork that cannot be made; return False if another request has made it."""
    deleted = msgspec.structs.replace(configuration, state=Stage.DELETED)
    change = AttributeChange({CONFIGURATION: deleted.encoded()}, {CONFIGURATION: begun})
    try:
        await access.backend.perform(ChangeAttributes(stream, change))
        await access.backend.perform(DeleteStream(stream))
    except StreamNotFound:
        return True
    except StreamsChanged:
        return False
    return True


async def _source(access: Access, source: bytes, *, has_all: bool = False) -> Known:
    there = await attributes_of(access, source, has_all=has_all)
    if there.configuration.state is Stage.DELETED:
        text = "the source is deleted, but forks of it still exist"
        raise GatewayError("stream_exists", text, pointer="/header/Stream-Forked-From")
    if there.configuration.state is Stage.FORKING:
        raise StreamNotFound(source)
    return there


def _inheriting(wanted: DurableStream, source: DurableStream) -> DurableStream:
    content_type = wanted.content_type or source.content_type
    if media_type(content_type) != media_type(source.content_type):
        text = f"A fork has the content type of its source, {source.content_type}."
        raise GatewayError("content_type_mismatch", text, pointer="/header/Content-Type")
    ttl_s, expires_at = wanted.ttl_s, wanted.expires_at
    if ttl_s is None and expires_at is None:
        ttl_s, expires_at = source.ttl_s, source.expires_at
    return DurableStream(content_type, ttl_s, expires_at, wanted.origin)


def _forking(configuration: DurableStream, point: Point) -> bytes:
    begun = msgspec.structs.replace(
        configuration, state=Stage.FORKING, source_epoch=point.epoch, through=str(point.through)
    )
    return begun.encoded()


async def _point(
    access: Access, source: bytes, origin: ForkOrigin, content_type: str, messages_max: int
) -> Point:
    """Return where a fork leaves its source; GatewayError: that is behind its end."""
    info = await access.backend.perform(DescribeStream(source))
    epoch, end = info.epoch, info.last_id
    through = end
    if origin.offset is not None:
        through = parse_offset(origin.offset, pointer="/header/Stream-Fork-Offset")
        if through > end:
            text = "should not be beyond the end of the source"
            raise GatewayError("malformed", text, pointer="/header/Stream-Fork-Offset")
    count = origin.sub_offset
    if not count:
        return Point(epoch, through)
    if not is_json(content_type):
        entries = await _entries(access, source, through, 1)
        content = bytes_of(entries[0].fields) if entries else b""
        if count > len(content):
            raise _overshoots()
        if count == len(content):
            return Point(epoch, entries[0].id)
        return Point(epoch, through, content[:count])
    if count > messages_max:
        raise _overshoots()
    while count:
        entries = await _entries(access, source, through, min(count, _PAGE_ENTRIES))
        if not entries:
            raise _overshoots()
        through = entries[-1].id
        count -= len(entries)
    return Point(epoch, through)


def _overshoots() -> GatewayError:
    text = "should not be beyond what was appended there"
    return GatewayError("malformed", text, pointer="/header/Stream-Fork-Sub-Offset")


async def _entries(access: Access, stream: bytes, after: EntryId, limit: int) -> list[Entry]:
    cursor = StreamCursor(stream, after)
    [read] = await access.perform(Read([cursor], limit=limit, size_bytes_max=_PAGE_BYTES))
    check_no_gap(read.gap, after)
    return read.entries


async def _copy(access: Access, source: bytes, stream: bytes, point: Point) -> EntryId:
    """Append the missing entries to a fork; return its last id. Raises GatewayError."""
    while True:
        after = (await access.backend.perform(DescribeStream(stream))).last_id
        if after > point.through:
            raise _spoiled("another client appended to the stream at this path")
        entries = await _entries(access, source, after, _PAGE_ENTRIES)
        drafts = [Draft(entry.id, entry.fields) for entry in entries if entry.id <= point.through]
        if drafts:
            adding = Add(stream, drafts, create_stream=False, expected_last_id=after)
            with suppress(LastIdMismatch):  # another request makes the same fork
                await access.perform(adding)
            continue
        if (await access.backend.perform(DescribeStream(source))).epoch != point.epoch:
            raise _spoiled("the source was deleted and created again meanwhile")
        return after


async def _refer(access: Access, source: bytes, stream: bytes) -> None:
    """Record a fork at its source; raises GatewayError if that is deleted meanwhile."""
    for _ in range(ATTEMPTS_MAX):
        there = await _source(access, source, has_all=True)
        forks = {name for name in there.attributes if name.startswith(FORK)}
        if len(forks | {FORK + stream}) > FORKS_MAX and not await make_room(
            access, source, forget_gone_forks
        ):
            raise LimitReached("forks of this stream", FORKS_MAX)
        change = there.changed({FORK + stream: b""})
        try:
            await access.backend.perform(ChangeAttributes(source, change))
        except StreamsChanged:
            continue
        except LimitReached:
            if not await make_room(access, source, forget_gone_forks):
                raise
            continue
        return
    raise Unavailable("the source changes too often")


async def living_forks(access: Access, stream: bytes, there: Known) -> dict[bytes, DurableStream]:
    """Return the existing forks of a stream; others that it knows may have expired."""
    forks = dict[bytes, DurableStream]()
    for attribute in there.attributes:
        if attribute.startswith(FORK):
            name = attribute.removeprefix(FORK)
            with suppress(StreamNotFound):
                configuration = (await attributes_of(access, name)).configuration
                origin = configuration.origin
                if origin is not None and origin.stream.encode() == stream:
                    forks[name] = configuration
    return forks


async def forget_gone_forks(access: Access, stream: bytes) -> bool:
    """Forget forks that vanished without the protocol; return whether there were any."""
    there = await attributes_of(access, stream, has_all=True)
    living = await living_forks(access, stream, there)
    names = (name for name in there.attributes if name.startswith(FORK))
    gone = [name for name in names if name.removeprefix(FORK) not in living]
    if gone:
        values: dict[bytes, bytes | None] = dict.fromkeys(gone)
        await access.backend.perform(ChangeAttributes(stream, AttributeChange(values)))
    return bool(gone)


async def delete(access: Access, stream: bytes) -> None:
    """Delete a stream; one with forks is kept for them, but marked as deleted."""
    access.require([Need((Verb.MANAGE,), stream)])
    for _ in range(ATTEMPTS_MAX):
        there = await attributes_of(access, stream, has_all=True)
        forks = await living_forks(access, stream, there)
        if there.configuration.state is Stage.DELETED and forks:
            raise gone()
        if not forks:
            await access.perform(DeleteStream(stream))
            await _release(access, stream, there.configuration)
            return
        deleted = msgspec.structs.replace(
            there.configuration, ttl_s=None, expires_at=None, state=Stage.DELETED
        )
        try:
            change = there.changed({CONFIGURATION: deleted.encoded()})
            await access.perform(ChangeAttributes(stream, change))
        except StreamsChanged:
            continue
        with suppress(StreamNotFound):
            await access.backend.perform(PersistStream(stream))
            # From now on there is no new one; another may have come before.
            there = await attributes_of(access, stream, has_all=True)
            forks = await living_forks(access, stream, there)
            if not any(fork.state is Stage.FORKING for fork in forks.values()):
                await access.perform(Trim(stream, TrimTo(max_length=0)))
        return
    raise Unavailable("the stream changes too often")


async def _release(access: Access, fork: bytes, configuration: DurableStream) -> None:
    """Let the source forget a fork; the source goes as well if it waited for that."""
    while configuration.origin is not None:
        source = configuration.origin.stream.encode()
        forgotten = AttributeChange({FORK + fork: None})
        try:
            await access.backend.perform(ChangeAttributes(source, forgotten))
            there = await attributes_of(access, source, has_all=True)
        except StreamNotFound:
            return
        is_waiting = there.configuration.state is Stage.DELETED
        if not is_waiting or await living_forks(access, source, there):
            return
        await access.backend.perform(DeleteStream(source))
        fork, configuration = source, there.configuration
