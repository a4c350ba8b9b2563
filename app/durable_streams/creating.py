"""Creating: a stream with its configuration and its first content, or nothing (5.1)."""

from typing import NamedTuple

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.app.durable_streams.configuration import (
    CONFIGURATION,
    DurableStream,
    Stage,
    attributes_of,
)
from headgate.app.durable_streams.content import drafts_of
from headgate.app.durable_streams.lifetime import begin_life
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamExists
from headgate.engine.requests.attributes import AttributeChange
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import CloseStream, DescribeStream


class Creation(NamedTuple):
    """A request to make a stream."""

    configuration: DurableStream
    body: bytes
    is_closed: bool  # it never gets more than this body


class MadeStream(NamedTuple):
    """The stream that is there now."""

    configuration: DurableStream
    end: EntryId
    is_closed: bool
    is_new: bool


async def create(
    access: Access, stream: bytes, wanted: Creation, *, messages_max: int
) -> MadeStream:
    """Make a stream, unless it is there as it is wanted.

    Raises:
        GatewayError: the path is taken by another stream.
    """
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
    """Return a stream that is there, if it is as it is wanted.

    Raises:
        GatewayError: it is not.
    """
    access.require([Need((Verb.READ, Verb.APPEND, Verb.MANAGE), stream)])
    there = (await attributes_of(access, stream)).configuration
    info = await access.backend.perform(DescribeStream(stream))
    is_closed = info.closed_at_ms is not None
    if there.state is Stage.DELETED:
        raise _taken("a deleted stream, which forks refer to, takes up this path")
    if not there.is_like(wanted.configuration):
        raise _taken("there is a stream with another configuration")
    if is_closed != wanted.is_closed:
        state = "closed" if is_closed else "open"
        raise _taken(f"the stream that is there is {state}")
    return MadeStream(there, info.last_id, is_closed, is_new=False)


def _taken(text: str) -> GatewayError:
    return GatewayError("stream_exists", text, pointer="/path/path")
