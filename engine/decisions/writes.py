"""Decisions about writers: append a batch to several streams, only once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from headgate.engine.commands import BatchCommitted, Command, EntriesTimed, StreamCreated
from headgate.engine.config import StreamConfig
from headgate.engine.decisions import Decision, Decisions, Step
from headgate.engine.decisions.entries import append
from headgate.engine.errors import IdNotGreater, Invalid, StreamNotFound
from headgate.engine.limits import COMMIT_STREAMS_MAX, TIMED_AT_ONCE_MAX
from headgate.engine.replies import Committed, Written
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.state.extents.missing import require_each
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream


def commit_batch(keyspace: Keyspace, request: CommitBatch, now_ms: int) -> Decision[Committed]:
    """Decide to append a writer's batch, all or none.

    Nothing changes if the writer has already committed this batch or a later one. A batch without
    entries is remembered like any other.
    """
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
            stream = Stream(name, epoch, StreamConfig())
            commands.append(StreamCreated(name, epoch, stream.config))
            epoch += 1  # the next stream gets a greater epoch
        try:
            appending = append(keyspace, stream, wanted, now_ms)
        except (IdNotGreater, Invalid) as error:
            error.location = ()  # the location would not tell which stream
            if isinstance(error, IdNotGreater):
                error.stream = name
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
    """Decide the next part of the first stream's append; the other streams follow."""
    first, *others = next_parts
    commands = first(keyspace, now_ms).commands
    return Decision(reply, commands, partial(_go_on, reply, others) if others else None)


DECISIONS: Decisions = {
    CommitBatch: commit_batch,
}
