"""Streams as one value, by DUMP, RESTORE and COPY of the server.

What only we keep about a stream is in side keys. A dump leaves it out, except entries without an
owner; a copy includes it.
"""

from __future__ import annotations

from msgspec.structs import asdict, replace

from headgate.app.backends.payloads import PAYLOADS, written
from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function, by_operation
from headgate.app.backends.redis.performing.streams import govern
from headgate.app.rdb.source import RdbError
from headgate.engine.errors import Invalid, SeveralSlots
from headgate.engine.images import ConsumerImage, GroupImage, StreamImage
from headgate.engine.requests.keyspace import CopyStream, DumpStream, MeasureStream, RestoreStream

_RELEASED = b"\0released"  # in a server, it owns what nobody owns: functions/pending.lua


async def dump_stream(client: Client, request: DumpStream) -> StreamImage:
    payload = await client.perform(Effect.READ, request)
    try:
        with PAYLOADS.share() as share:
            return await PAYLOADS.read(payload, share, _without_stand_ins)
    except RdbError as error:
        raise Invalid(f"the server's dump cannot be read: {error}") from None


def _without_stand_ins(image: StreamImage) -> StreamImage:
    return replace(image, groups=list(map(_without_stand_in, image.groups)), keys=None)


def _without_stand_in(group: GroupImage) -> GroupImage:
    """Return a group without the consumer `_RELEASED`: nobody owns its entries."""
    names = [consumer.name for consumer in group.consumers]
    if _RELEASED not in names:
        return group
    gone = names.index(_RELEASED)
    pending = [
        each._replace(consumer=-1, delivered_at_ms=0)
        if each.consumer == gone
        else each._replace(consumer=each.consumer - (each.consumer > gone))
        for each in group.pending
    ]
    consumers = group.consumers[:gone] + group.consumers[gone + 1 :]
    return replace(group, consumers=consumers, pending=pending)


async def restore_stream(client: Client, request: RestoreStream) -> None:
    """Create a stream from a value (RESTORE); its idempotency keys are left out."""
    payload, released = await PAYLOADS.run(lambda: _written(request.image))
    await client.perform(Effect.WRITE, request, payload, image=None, released=released)


def _written(image: StreamImage) -> tuple[bytes, list[dict[str, object]]]:
    """Return the payload of a stream, and what is released in each group."""
    released: list[dict[str, object]] = []
    for group in image.groups:
        ids = [each.id for each in group.pending if each.consumer < 0]
        released += [{"group": group.name, "ids": ids}] if ids else []
    groups = list(map(_with_stand_in, image.groups))
    owned = replace(image, groups=groups, keys=None)  # servers before 8.6 take no keys
    return written(owned), released


def _with_stand_in(group: GroupImage) -> GroupImage:
    """Return a group with a consumer `_RELEASED` that owns the entries without an owner."""
    if all(each.consumer >= 0 for each in group.pending):
        return group
    place = len(group.consumers)
    pending = [
        each if each.consumer >= 0 else each._replace(consumer=place) for each in group.pending
    ]
    consumers = [*group.consumers, ConsumerImage(_RELEASED, 0, None)]
    return replace(group, consumers=consumers, pending=pending)


async def copy_stream(client: Client, request: CopyStream) -> bool:
    """Copy a stream with everything in it (COPY); both names must be in one slot."""
    source, target = client.names.of(request.stream), client.names.of(request.to)
    if client.is_cluster and source.slot != target.slot:
        raise SeveralSlots("copies")
    async with govern(client, request.to, is_needed=True):
        keys = [source, target]
        return bool(await client.call(Effect.WRITE, "CopyStream", keys, **asdict(request)))


PERFORMERS: Performers = {
    DumpStream: by_function(dump_stream),
    RestoreStream: by_function(restore_stream),
    CopyStream: by_function(copy_stream),
    MeasureStream: by_operation(Effect.READ, int),
}
