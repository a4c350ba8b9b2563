"""Bulk: how much many streams have for bulk readers; entries are counted and not read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headgate.engine.decisions import Decision, Decisions
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.replies import Commit, Portion
from headgate.engine.requests.bulk import BulkCursor, LastCommit, PlanRead
from headgate.engine.requests.entries import From
from headgate.engine.room import shares
from headgate.engine.state.extents.missing import require_each
from headgate.engine.state.keyspace import Keyspace


def freeze(keyspace: Keyspace, cursors: Sequence[BulkCursor]) -> tuple[BulkCursor, ...]:
    """Replace each cursor at `From.NOW` by the stream's present last id and epoch."""
    frozen = []
    for cursor in cursors:
        state = keyspace.find(cursor.stream)
        if cursor.after is From.NOW:
            now, epoch = (MIN_ID, None) if state is None else (state.last_id, state.epoch)
            frozen.append(BulkCursor(cursor.stream, now, epoch))
        else:
            frozen.append(cursor)
    return tuple(frozen)


def plan_read(keyspace: Keyspace, request: PlanRead, now_ms: int) -> Decision[list[Portion]]:
    """Plan the next read of each stream, without waiting.

    If the epoch of a stream differs from the epoch of its cursor, the stream is counted from its
    beginning: the cursor belongs to an older stream of the same name.
    """
    del now_ms
    cursors, entries_max = freeze(keyspace, request.cursors), request.entries_max
    afters = [_after(keyspace, cursor) for cursor in cursors]
    backlogs = []
    if keyspace.memory.cold_bytes:
        require_each(
            partial(stream.log.count, after, MAX_ID)
            for cursor, after in zip(cursors, afters, strict=True)
            if (stream := keyspace.find(cursor.stream)) is not None
        )
    for cursor, after in zip(cursors, afters, strict=True):
        stream = keyspace.find(cursor.stream)
        backlogs.append(0 if stream is None else stream.log.count(after, MAX_ID))
    given = backlogs if entries_max is None else shares(backlogs, entries_max)
    portions = [
        partial(_portion, keyspace, cursor.stream, after, backlog, share)
        for cursor, after, backlog, share in zip(cursors, afters, backlogs, given, strict=True)
    ]
    if keyspace.memory.cold_bytes:
        require_each(portions)
    return Decision([portion() for portion in portions], [])


def last_commit(keyspace: Keyspace, request: LastCommit, now_ms: int) -> Decision[Commit | None]:
    """Reply with the last commit of a writer."""
    del now_ms
    commit = keyspace.writers.by_name.get(request.writer)
    if commit is not None:
        commit = commit._replace(at_ms=keyspace.wall_ms(commit.at_ms))
    return Decision(commit, [])


def _after(keyspace: Keyspace, cursor: BulkCursor) -> EntryId:
    assert isinstance(cursor.after, EntryId)
    stream = keyspace.find(cursor.stream)
    if stream is None or cursor.epoch in (None, stream.epoch):
        return cursor.after
    return MIN_ID


def _portion(
    keyspace: Keyspace, stream: bytes, after: EntryId, backlog: int, share: int
) -> Portion:
    stream_state = keyspace.find(stream)
    if stream_state is None:
        return Portion(stream, None, after, after, 0, 0, MIN_ID, None, None)
    end = after
    if 0 < share == backlog:  # the share is the whole backlog: no need to count again
        end = stream_state.log.last_id
    elif (cut := stream_state.log.portion(after, MAX_ID, share)) is not None:
        end = cut.through
    return Portion(
        stream=stream,
        epoch=stream_state.epoch,
        after=after,
        end=end,
        entries=share,
        backlog=backlog,
        last_id=stream_state.last_id,
        first_id=stream_state.log.first_id if stream_state.log.length else None,
        gap=stream_state.gap_after(after, end),
    )


DECISIONS: Decisions = {
    PlanRead: plan_read,
    LastCommit: last_commit,
}
