"""Deleting: a stream goes, or stays as a place that is taken while forks refer to it (4.2, 5.4)."""

from contextlib import suppress

import msgspec

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.app.durable_streams.configuration import (
    ATTEMPTS_MAX,
    CONFIGURATION,
    DurableStream,
    Stage,
    attributes_of,
    gone,
)
from headgate.app.durable_streams.forking import FORK, living_forks
from headgate.engine.errors import StreamNotFound, StreamsChanged, Unavailable
from headgate.engine.requests.attributes import AttributeChange, ChangeAttributes
from headgate.engine.requests.entries import Trim, TrimTo
from headgate.engine.requests.keyspace import PersistStream
from headgate.engine.requests.streams import DeleteStream


async def delete(access: Access, stream: bytes) -> None:
    """Delete a stream; with forks, as far as they let it go.

    Raises:
        StreamNotFound: there is none.
        GatewayError: it is deleted, and forks refer to it.
    """
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
    raise Unavailable("the stream is changed all the time")


async def _release(access: Access, fork: bytes, configuration: DurableStream) -> None:
    """Let the source of a fork that has gone forget it; it goes as well if it waited for that."""
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
