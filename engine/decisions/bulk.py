"""Decisions about readers that take whole streams, and writers that commit batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from headgate.engine.commands import BatchCommitted, Command, EntriesTimed, StreamCreated
from headgate.engine.decisions import Decision, Decisions, Step
from headgate.engine.decisions.entries import append
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.errors import IdNotGreater, Invalid, SchemaMismatch, StreamNotFound
from headgate.engine.limits import COMMIT_STREAMS_MAX, TIMED_AT_ONCE_MAX
from headgate.engine.replies import Commit, Committed, Portion, Written
from headgate.engine.requests.bulk import BulkCursor, CommitBatch, LastCommit, PlanRead
from headgate.engine.requests.entries import From
from headgate.engine.room import shares
from headgate.engine.state.extent import require_each
from headgate.engine.state.keyspace import Keyspace


def freeze(keyspace: Keyspace, cursors: Sequence[BulkCursor]) -> tuple[BulkCursor, ...]:
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
    """Plan the next read of each stream; a cursor of another epoch reads from the beginning."""
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


def commit_batch(keyspace: Keyspace, request: CommitBatch, now_ms: int) -> Decision[Committed]:
    """Decide to append a writer's batch, all or none, unless it or a later one is committed."""
    writer, batch, drafts = request.writer, request.batch, request.drafts
    last = keyspace.writers.by_name.get(writer)
    if last is not None and batch <= last.batch:
        return Decision(Committed(is_repeat=True, streams=[]), [])
    if len(drafts) > COMMIT_STREAMS_MAX:
        text = f"a batch names at most {COMMIT_STREAMS_MAX} streams, not {len(drafts)}"
        raise Invalid(text)
    _require_ends_of_trims(keyspace, drafts)
    commands: list[Command] = []
    written: list[Written] = []
    next_parts: list[Step[Written | None]] = []
    epoch = keyspace.next_epoch(now_ms)
    stream_count = len(keyspace.streams)
    for name, wanted in drafts.items():
        if not wanted:  # packed drafts are never empty
            continue
        stream = keyspace.find(name)
        if stream is None:
            if not request.create_streams:
                raise StreamNotFound(name)
            keyspace.bounds.check_another_stream(stream_count)
            stream_count += 1
            stream = keyspace.drafted(name, epoch)
            commands.append(StreamCreated(name, epoch, stream.config))
            epoch += 1  # the next stream gets a greater epoch
        try:
            appending = append(keyspace, stream, wanted, now_ms)
        except (IdNotGreater, Invalid) as error:
            _name_stream(error, name)
            raise
        commands += appending.commands
        assert appending.reply is not None
        written.append(appending.reply)
        if appending.next_part is not None:
            next_parts.append(appending.next_part)
    _check_timed(commands)
    commands.append(BatchCommitted(writer, batch, now_ms))
    reply = Committed(is_repeat=False, streams=written)
    return Decision(reply, commands, partial(_go_on, reply, next_parts) if next_parts else None)


def _name_stream(error: IdNotGreater | Invalid, stream: bytes) -> None:
    """Let an error say which stream it is about, as its location does not tell that."""
    if isinstance(error, SchemaMismatch):
        error.name_stream(stream)
    if isinstance(error, IdNotGreater):
        error.stream = stream
    error.location = ()


def _check_timed(commands: Iterable[Command]) -> None:
    counts = [len(command.entries) for command in commands if isinstance(command, EntriesTimed)]
    if sum(counts) > TIMED_AT_ONCE_MAX:
        raise Invalid(f"at most {TIMED_AT_ONCE_MAX} entries of a batch have times")


def _require_ends_of_trims(keyspace: Keyspace, names: Iterable[bytes]) -> None:
    """Check that the first extents are in memory, in which most trims end behind an append."""
    if keyspace.memory.cold_bytes:
        require_each(
            partial(stream.log.extents.chunks, 0)
            for stream in map(keyspace.find, names)
            if stream is not None and stream.config.retains and stream.log.extents
        )


def _go_on(
    reply: Committed, next_parts: Sequence[Step[Written | None]], keyspace: Keyspace, now_ms: int
) -> Decision[Committed]:
    first, *others = next_parts
    commands = first(keyspace, now_ms).commands
    return Decision(reply, commands, partial(_go_on, reply, others) if others else None)


DECISIONS: Decisions = {PlanRead: plan_read, LastCommit: last_commit, CommitBatch: commit_batch}
