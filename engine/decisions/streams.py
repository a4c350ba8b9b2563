"""Decisions about streams: list, describe, create, change, close, delete, watch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from headgate.engine.commands import (
    Command,
    KeysForgotten,
    StreamClosed,
    StreamConfigured,
    StreamCreated,
    StreamDeleted,
)
from headgate.engine.config import StreamConfig
from headgate.engine.decisions import Decision, Decisions
from headgate.engine.decisions.attributes import attributes_changed, check_attributes
from headgate.engine.decisions.entries import add, check_last_id
from headgate.engine.decisions.keys import key_limits, key_window_ms
from headgate.engine.decisions.name_ranges import NameRange, beginning_with, following, shown_by
from headgate.engine.decisions.trims import retention_cut, trim_command
from headgate.engine.errors import Invalid, StreamExists, StreamsChanged
from headgate.engine.replies import Added, ClosedStream, Created, StreamInfo, TableInfo
from headgate.engine.requests.entries import Add
from headgate.engine.requests.keyspace import GetRevisions, IfUnchanged
from headgate.engine.requests.streams import (
    CloseStream,
    CreateStream,
    DeleteStream,
    DescribeStream,
    ListStreams,
    UpdateStream,
)
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream
from headgate.engine.state.table import StreamTable


def list_streams(
    keyspace: Keyspace, request: ListStreams, now_ms: int
) -> Decision[list[StreamInfo]]:
    del now_ms
    names = islice(_listed_names(keyspace, request), request.limit)
    return Decision([stream_info(keyspace, name) for name in names], [])


def _listed_names(keyspace: Keyspace, request: ListStreams) -> Iterator[bytes]:
    asked = beginning_with(request.prefix)
    if request.after is not None:
        asked = NameRange(max(asked.start, following(request.after)), asked.end)
    for shown in shown_by(request.only):
        names = shown.within(asked)
        if names is not None:
            yield from names.among(keyspace)


def describe_stream(
    keyspace: Keyspace, request: DescribeStream, now_ms: int
) -> Decision[StreamInfo]:
    del now_ms
    return Decision(stream_info(keyspace, request.stream), [])


def stream_info(keyspace: Keyspace, stream: bytes) -> StreamInfo:
    stream_state = keyspace.stream(stream)
    archive, table = stream_state.archive, stream_state.table
    return StreamInfo(
        name=stream,
        epoch=stream_state.epoch,
        config=stream_state.config,
        length=stream_state.log.length,
        chunk_count=stream_state.log.chunk_count,
        first_id=stream_state.log.first_id,
        last_id=stream_state.last_id,
        max_deleted_id=stream_state.max_deleted_id,
        trimmed_through=stream_state.trimmed_through,
        entries_added=stream_state.entries_added,
        group_count=len(stream_state.groups),
        hot_bytes=stream_state.log.memory_bytes,
        cold_bytes=stream_state.log.extents.size_bytes,
        closed_at_ms=stream_state.closed_at_ms,
        timed_count=len(stream_state.deadlines or ()),
        archived_count=0 if archive is None else archive.length,
        archived_first_id=archive.first_id if archive is not None and archive.length else None,
        gone_through=stream_state.gone_through,
        table=None if table is None else _table_info(stream_state, table),
    )


def _table_info(stream: Stream, table: StreamTable) -> TableInfo:
    return TableInfo(len(table.rows), table.through, not stream.is_behind(table))


def _check(config: StreamConfig) -> None:
    if config.retain and config.key_field is None:
        raise Invalid("only a table has latest entries: set key_field", location=("retain",))


def create_stream(
    keyspace: Keyspace, request: CreateStream, now_ms: int
) -> Decision[Created[StreamInfo]]:
    name, config = request.stream, request.config
    _check(config)
    stream = keyspace.find(name)
    if stream is not None and stream.config != config:
        raise StreamExists(name)
    commands: list[Command] = []
    if stream is None:
        if config.archive:
            keyspace.check_bucket()
        keyspace.bounds.check_another_stream(len(keyspace.streams))
        epoch = keyspace.next_epoch(now_ms) if request.epoch is None else request.epoch
        commands = [StreamCreated(name, epoch, config)]
        stream = Stream(name, epoch, config)
        check_attributes(None, request.attributes)
        commands += attributes_changed(keyspace, stream, request.attributes)
    return Decision.then(
        commands, lambda keyspace, _: Created(bool(commands), stream_info(keyspace, name))
    )


def update_stream(keyspace: Keyspace, request: UpdateStream, now_ms: int) -> Decision[StreamInfo]:
    """Decide to change the configuration at once; housekeeping removes very many entries later."""
    name = request.stream
    stream = keyspace.stream(name)
    config = request.config.applied_to(stream.config)
    _check(config)
    commands: list[Command] = []
    if config.archive and not stream.config.archive:
        keyspace.check_bucket()
    if config != stream.config:
        commands.append(StreamConfigured(name, config))
        if key_limits(keyspace, stream.config) != key_limits(keyspace, config):
            commands.append(KeysForgotten(name, None))  # Redis: a changed value wipes the history
        commands += trim_command(name, retention_cut(stream, [], config, now_ms))
    return Decision.then(commands, lambda keyspace, _: stream_info(keyspace, name))


def close_stream(keyspace: Keyspace, request: CloseStream, now_ms: int) -> Decision[ClosedStream]:
    name, expected = request.stream, request.expected_last_id
    added, commands = Added([], is_repeat=False), list[Command]()
    if request.drafts or request.is_new:
        wanted = name, request.drafts, request.idempotent, request.create_stream, expected
        added, commands, *_ = add(
            keyspace, Add(*wanted, None, request.attributes, request.is_new), now_ms
        )
        stream = keyspace.find(name)
    else:
        stream = keyspace.stream(name)
        if stream.closed_at_ms is None:
            check_last_id(stream, expected)
        check_attributes(stream, request.attributes)
        commands += attributes_changed(keyspace, stream, request.attributes)
    if stream is None or stream.closed_at_ms is None:
        at_ms = now_ms if request.closed_at_ms is None else request.closed_at_ms
        commands.append(StreamClosed(name, at_ms))

    def look(keyspace: Keyspace, _: int) -> ClosedStream:
        closed = keyspace.stream(name)
        assert closed.closed_at_ms is not None
        return ClosedStream(*added, closed.epoch, closed.closed_at_ms)

    return Decision.then(commands, look)


def delete_stream(keyspace: Keyspace, request: DeleteStream, now_ms: int) -> Decision[bool]:
    del now_ms
    exists = keyspace.find(request.stream) is not None
    return Decision(exists, [StreamDeleted(request.stream)] if exists else [])


def due_ms(keyspace: Keyspace, stream: bytes) -> int | None:
    """Return unix ms when the first entry or key is too old or expires; None: never."""
    stream_state = keyspace.find(stream)
    if stream_state is None:
        return None
    due_times = []
    max_age_ms, max_length = stream_state.config.max_age_ms, stream_state.config.max_length
    if max_age_ms is not None and stream_state.log.length:
        due_times.append(stream_state.log.first_id.ms + max_age_ms + 1)
    if max_length is not None and stream_state.log.length > max_length:
        due_times.append(0)
    first_at_ms = stream_state.keys.first_at_ms
    if first_at_ms is not None:
        due_times.append(keyspace.wall_ms(first_at_ms) + key_window_ms(keyspace, stream_state) + 1)
    deadlines = stream_state.deadlines
    if deadlines is not None and deadlines.next_ms is not None:
        due_times.append(keyspace.wall_ms(deadlines.next_ms))
    return min(due_times, default=None)


def get_revisions(keyspace: Keyspace, request: GetRevisions, now_ms: int) -> Decision[list[bytes]]:
    del now_ms
    return Decision(_revisions(keyspace, request.streams), [])


def if_unchanged(keyspace: Keyspace, request: IfUnchanged, now_ms: int) -> Decision[None]:
    del now_ms
    if _revisions(keyspace, request.streams) != list(request.revisions):
        raise StreamsChanged
    return Decision(None, [])


def _revisions(keyspace: Keyspace, streams: Sequence[bytes]) -> list[bytes]:
    return [keyspace.revisions.of(name, keyspace.find(name)) for name in streams]


DECISIONS: Decisions = {
    GetRevisions: get_revisions,
    IfUnchanged: if_unchanged,
    ListStreams: list_streams,
    DescribeStream: describe_stream,
    CreateStream: create_stream,
    UpdateStream: update_stream,
    CloseStream: close_stream,
    DeleteStream: delete_stream,
}
