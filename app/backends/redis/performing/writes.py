"""Commit batches of bulk writers, and report their last commits.

A batch is committed in one slot of a cluster, where it is atomic. Beside each stream, `writers` has
the last batch that each writer has put into it. A writer has a hash of its own, in its own slot:
`last` is the last batch known to be committed, and when. A field for each stream of a batch that is
about to be committed says where else to look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from msgspec.structs import asdict

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import Fault, as_stream_errors, read_id, stream_error
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function
from headgate.app.backends.redis.performing.entries import (
    check_drafts,
    drafts_words,
    timed,
    timings_of,
)
from headgate.app.backends.redis.performing.streams import govern
from headgate.engine.entry import Draft
from headgate.engine.errors import IdNotGreater, Invalid, SeveralSlots
from headgate.engine.limits import COMMIT_STREAMS_MAX, TIMED_AT_ONCE_MAX
from headgate.engine.replies import Commit, Committed, Written
from headgate.engine.requests.bulk import CommitBatch, LastCommit

_ENTRIES_MAX = 100_000
"""Entries of one batch. They are appended in one step, which takes 2 µs for each."""


async def commit_batch(client: Client, request: CommitBatch) -> Committed:
    """Append a writer's entries to streams of one slot, all or none, and remember the batch.

    1. Look whether the writer has committed this batch or a later one.
    2. Note at the writer where the batch goes.
    3. Append it. The function looks again, in the same step.
    4. Note at the writer that it is committed. If this is not reached, step 1 finds it by the notes
       of step 2.

    Raises:
        SeveralSlots: the streams are in several slots of the cluster.
    """
    writer, batch = request.writer, request.batch
    last = await _last_commit(client, writer)
    drafts = {stream: drafts for stream, drafts in request.drafts.items() if drafts}
    if last is not None and batch <= last.batch:
        await _confirm(client, writer, drafts)
        return Committed(is_repeat=True, streams=[])
    _check(client, request, drafts)
    if drafts:
        await _at_writer(client, writer, "begin_commit", batch=batch, streams=[*drafts])
        committed = await _commit(client, request, drafts)
    else:
        committed = Committed(is_repeat=False, streams=[])
    if committed.is_repeat:
        await _confirm(client, writer, drafts)
    else:
        await _at_writer(client, writer, "end_commit", batch=batch, streams=[*drafts])
    return committed


async def _confirm(client: Client, writer: bytes, streams: Iterable[bytes]) -> None:
    """Wait until the last batch of a writer is durable in these streams."""
    await asyncio.gather(
        *(client.call(Effect.FREE, "confirm_commit", each, writer=writer) for each in streams)
    )


def _check(client: Client, request: CommitBatch, drafts: dict[bytes, Sequence[Draft]]) -> None:
    if len(request.drafts) > COMMIT_STREAMS_MAX:
        given = len(request.drafts)
        raise Invalid(f"a batch may name at most {COMMIT_STREAMS_MAX} streams, not {given}")
    count = sum(map(len, drafts.values()))
    if count > _ENTRIES_MAX:
        raise Invalid(
            f"a batch may have at most {_ENTRIES_MAX} entries with this backend, not {count}"
        )
    timed_count = 0
    for each in drafts.values():
        try:
            check_drafts(each)
            timed_count += len(timings_of(each))
        except Invalid as error:
            error.location = ()  # the location would not tell which stream
            raise
    if timed_count > TIMED_AT_ONCE_MAX:
        raise Invalid(f"at most {TIMED_AT_ONCE_MAX} entries of a batch may have times")
    if client.is_cluster and len({client.names.of(stream).slot for stream in drafts}) > 1:
        raise SeveralSlots("batches")


async def _commit(
    client: Client, request: CommitBatch, drafts: dict[bytes, Sequence[Draft]]
) -> Committed:
    streams = list(drafts)
    words = (word for each in drafts.values() for word in drafts_words(each))
    timings = [
        each
        for place, stream in enumerate(streams, 1)
        for each in timings_of(drafts[stream], place)
    ]
    try:
        keys = list(map(client.names.of, streams))
        async with AsyncExitStack() as governed:
            for number in {each.stream for each in timings}:
                stream = streams[number - 1]
                await governed.enter_async_context(govern(client, stream, is_needed=True))
            more = {**asdict(request), "drafts": None, **timed(client, timings)}
            rows = await client.call(Effect.WRITE, "CommitBatch", keys, *words, **more)
    except Fault as fault:
        *facts, place = fault.facts
        stream = streams[int(place)]
        error = stream_error(Fault(fault.name, facts), stream, b"")
        if isinstance(error, IdNotGreater):
            error.location = ()  # the location would not tell which stream
            error.stream = stream
        raise error from None
    if rows is None:
        return Committed(is_repeat=True, streams=[])
    written = [
        Written(stream, count, read_id(first), read_id(last))
        for stream, (count, first, last) in zip(streams, rows, strict=True)
    ]
    return Committed(is_repeat=False, streams=written)


async def last_commit(client: Client, request: LastCommit) -> Commit | None:
    return await _last_commit(client, request.writer)


async def _last_commit(client: Client, writer: bytes) -> Commit | None:
    last, streams = await _at_writer(client, writer, "look_up_commit")
    looked_up = await asyncio.gather(
        *(client.call(Effect.READ, "last_commit", each, writer=writer) for each in streams)
    )
    commits = [Commit(int(batch), int(at_ms)) for batch, at_ms in filter(None, [last, *looked_up])]
    return max(commits, default=None)


async def _at_writer(client: Client, writer: bytes, operation: str, **facts: object) -> Any:
    with as_stream_errors(b""):
        keys = [client.names.of_writer(writer)]
        return await client.call(Effect.FREE, operation, keys, **facts)


PERFORMERS: Performers = {
    CommitBatch: by_function(commit_batch),
    LastCommit: by_function(last_commit),
}
