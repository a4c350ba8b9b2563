"""Appends, exactly once if a producer asks for it, and the end of a stream."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.app.durable_streams.configuration import (
    ATTEMPTS_MAX,
    Known,
    attributes_of,
    known,
    make_room,
    prolong_life,
)
from headgate.app.durable_streams.content import drafts_of, media_type
from headgate.app.durable_streams.creating import forget_gone_forks
from headgate.app.durable_streams.producers import (
    CLOSED_BY,
    Append,
    ProducerRefusal,
    ProducerState,
    check_epoch,
    check_order,
    check_share,
    idle_among,
)
from headgate.app.durable_streams.protocol import CLOSED, NEXT_OFFSET, offset_of
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import ClosedToAppends, LimitReached, StreamsChanged, Unavailable
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import (
    AttributeChange,
    ChangeAttributes,
    CloseStream,
    DescribeStream,
)

SEQ = b"durable-stream:seq"
"""Attribute: the last `Stream-Seq`, which is one for all writers of the stream."""


class Writing(NamedTuple):
    content_type: str | None  # None: the request does not say
    body: bytes
    seq: str | None = None  # above the one before it
    producer: Append | None = None
    is_last: bool = False  # the stream is closed behind it
    at_ms: int = 0  # unix time


class Ending(NamedTuple):
    end: EntryId  # of the stream
    is_closed: bool
    is_repeat: bool = False
    place: ProducerState | None = None  # of the producer, if there is one


async def write(access: Access, stream: bytes, writing: Writing, *, messages_max: int) -> Ending:
    """Append a body to a stream, and close the stream if requested."""
    if not writing.body and not writing.is_last:
        text = "an append needs a body, unless it closes the stream"
        raise GatewayError("malformed", text, pointer="/body")
    if writing.body and writing.content_type is None:
        text = "an append needs a Content-Type"
        raise GatewayError("malformed", text, pointer="/header/Content-Type")
    access.require([Need((Verb.APPEND if writing.body else Verb.MANAGE,), stream)])
    if writing.producer is not None:
        own = access.own_producer(writing.producer.producer)
        writing = writing._replace(producer=writing.producer._replace(producer=own))
    for _ in range(ATTEMPTS_MAX):
        try:
            written = await _try(access, stream, writing, messages_max)
        except StreamsChanged:
            continue  # what it relies on: it is decided anew
        except ClosedToAppends:
            return await _end(access, stream, writing)
        except LimitReached:
            forget_idle = partial(_forget_idle, now_ms=writing.at_ms)
            if not await make_room(access, stream, forget_idle, forget_gone_forks):
                raise
        else:
            return written
    raise Unavailable("the stream changes too often to append to it")


async def _try(access: Access, stream: bytes, writing: Writing, messages_max: int) -> Ending:
    append, there = writing.producer, await _known(access, stream, writing)
    if append is not None:
        place = ProducerState.decode(there.attributes.get(append.attribute))
        check_epoch(append, place)
        if place is None and append.owner_prefix:
            check_share(append, (await attributes_of(access, stream, has_all=True)).attributes)
        end = await _end(access, stream, writing)
        if end.is_closed or check_order(append, place):
            return end._replace(is_repeat=True, place=place)
    fault = _fault(writing, there)
    if fault is not None:
        await _end(access, stream, writing)  # that it is closed matters more
        raise fault
    drafts = await drafts_of(
        writing.body, there.configuration.content_type, messages_max=messages_max
    )
    written = await _write(access, stream, writing, there, drafts)
    await prolong_life(access, stream, there.configuration)
    return written


async def _known(access: Access, stream: bytes, writing: Writing) -> Known:
    append = writing.producer
    names = [] if append is None else [CLOSED_BY, append.attribute]
    return await known(access, stream, SEQ, *names)


async def _end(access: Access, stream: bytes, writing: Writing) -> Ending:
    """Return the end of a stream; ProducerRefusal if it is closed and more is to be written."""
    info = await access.backend.perform(DescribeStream(stream))
    is_closed = info.closed_at_ms is not None
    if is_closed:
        append = writing.producer
        there = await _known(access, stream, writing)  # it may have been closed since
        is_same = append is not None and there.attributes.get(CLOSED_BY) == append.mark
        if not is_same and (writing.body or append is not None):
            headers = {CLOSED: "true", NEXT_OFFSET: offset_of(info.last_id)}
            raise ProducerRefusal(GatewayError("stream_closed", "The stream is closed."), headers)
    return Ending(info.last_id, is_closed)


def _fault(writing: Writing, there: Known) -> GatewayError | None:
    wanted = there.configuration.content_type
    if writing.body and media_type(writing.content_type or "") != media_type(wanted):
        text = f"The content type of the stream is {wanted}, not {writing.content_type}."
        return GatewayError("content_type_mismatch", text, pointer="/header/Content-Type")
    last = there.attributes.get(SEQ)
    if writing.seq is not None and last is not None and writing.seq.encode() <= last:
        text = f"It must be above the last one, {last.decode()!r}."
        return GatewayError("out_of_sequence", text, pointer="/header/Stream-Seq")
    return None


async def _write(
    access: Access, stream: bytes, writing: Writing, there: Known, drafts: Sequence[Draft]
) -> Ending:
    append, values, names = writing.producer, dict[bytes, bytes | None](), list[bytes]()
    place = None
    if writing.seq is not None:
        values[SEQ] = writing.seq.encode()
        names.append(SEQ)
    if append is not None:
        place = ProducerState(append.epoch, append.seq, writing.at_ms)
        values[append.attribute] = place.encoded()
        names.append(append.attribute)
        if writing.is_last:
            values[CLOSED_BY] = append.mark
            names.append(CLOSED_BY)
    change = there.changed(values, *names)
    if writing.is_last:
        closing = CloseStream(stream, drafts, create_stream=False, attributes=change)
        ids = (await access.perform(closing)).ids
    else:
        adding = Add(stream, drafts, create_stream=False, attributes=change)
        ids = (await access.perform(adding)).ids
    end = ids[-1] if ids else (await access.backend.perform(DescribeStream(stream))).last_id
    return Ending(end, writing.is_last, place=place)


async def _forget_idle(access: Access, stream: bytes, now_ms: int) -> bool:
    """Forget producers that have been idle for long; return whether there were any."""
    there = await attributes_of(access, stream, has_all=True)
    idle = idle_among(there.attributes, now_ms)
    values: dict[bytes, bytes | None] = dict.fromkeys(idle)
    change = AttributeChange(values, {name: there.attributes[name] for name in idle})
    with suppress(StreamsChanged):  # one of them writes again
        await access.backend.perform(ChangeAttributes(stream, change))
    return bool(idle)
