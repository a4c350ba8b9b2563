"""All streams: the commands on names, entries, counters and idempotency keys, made obvious."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

from msgspec.structs import asdict

from headgate.app.redis_syntax.words import CommandError
from headgate.engine.config import Patch, StreamConfig
from headgate.engine.entry import (
    MAX_ID,
    MIN_ID,
    Draft,
    Entry,
    EntryId,
    EntryTimes,
    Fields,
    IdRequest,
    PartialId,
    Timing,
)
from headgate.engine.errors import (
    ClosedToAppends,
    CounterTooLow,
    GroupNotFound,
    IdempotencyMismatch,
    IdNotGreater,
    IdsExhausted,
    Invalid,
    LastIdMismatch,
    StreamError,
    StreamExists,
    StreamNotFound,
    StreamsChanged,
)
from headgate.engine.replies import (
    Added,
    ClosedStream,
    Committed,
    Deletion,
    Gap,
    Histogram,
    Portion,
    Split,
    StreamInfo,
    StreamRead,
    Written,
)
from headgate.engine.requests.attributes import AttributeChange
from headgate.engine.requests.bulk import BulkCursor
from headgate.engine.requests.entries import From, References, StreamCursor, TrimTo
from headgate.engine.requests.histogram import CountByTime
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.streams import CloseStream
from headgate.engine.room import shares
from headgate.engine.state.defaults import Defaults
from tests.model.reference_stream import RefGroup, RefStream, UsedKey


class RefKeyspace:
    """All streams by name."""

    def __init__(self, defaults: Defaults) -> None:
        self.defaults = defaults
        self.streams: dict[bytes, RefStream] = {}
        self.epoch = 0
        self.commits: dict[bytes, tuple[int, int]] = {}  # batch and time, by writer
        self.clock_set_ms = 0  # Ours: claims make nothing older than that

    @property
    def node_max(self) -> int:
        return self.defaults.node_limits.entries_max

    # Streams

    def _stream(self, name: bytes) -> RefStream:
        if name not in self.streams:
            raise StreamNotFound(name)
        return self.streams[name]

    def _group(self, name: bytes, group: bytes) -> tuple[RefStream, RefGroup]:
        if name not in self.streams or group not in self.streams[name].groups:
            raise GroupNotFound(name, group, stream_exists=name in self.streams)
        return self.streams[name], self.streams[name].groups[group]

    def _make(self, name: bytes, config: StreamConfig, now_ms: int) -> RefStream:
        self.epoch = max(now_ms, self.epoch + 1)
        self.streams[name] = RefStream(self.epoch, config)
        return self.streams[name]

    def create_stream(self, name: bytes, config: StreamConfig, now_ms: int) -> bool:
        if name not in self.streams:
            self._make(name, config, now_ms)
            return True
        if self.streams[name].config != config:
            raise StreamExists(name)
        return False

    def update_stream(self, name: bytes, patch: Patch[StreamConfig], now_ms: int) -> StreamConfig:
        changes = {each: getattr(patch.values, each) for each in patch.names}
        config = StreamConfig(**asdict(self._stream(name).config) | changes)
        self._configure(self._stream(name), config, now_ms)
        return config

    def _configure(self, stream: RefStream, config: StreamConfig, now_ms: int) -> None:
        if config == stream.config:
            return
        before = self._window_ms(stream), self._keys_max(stream)
        stream.config = config
        if (self._window_ms(stream), self._keys_max(stream)) != before:
            stream.keys = []
        self._retain(stream, now_ms)

    def delete_stream(self, name: bytes) -> bool:
        return self.streams.pop(name, None) is not None

    def keep_stream(self, name: bytes, now_ms: int) -> None:
        """Ours: retention by age holds by itself. Keys go by the time at which they were used."""
        stream = self.streams[name]
        if stream.config.max_age_ms is not None:
            self._retain(stream, now_ms)
        stream.keys = [key for key in stream.keys if self._protects(stream, key, now_ms)]

    def rename(self, name: bytes, to: bytes) -> bool:
        self._stream(name)
        self.streams[to] = self.streams.pop(name)
        return True

    # Keys whose time comes

    def set_clock(self, by_ms: int) -> None:
        """Ours: who sets the clock sets all times with it that somebody waits by."""
        self.clock_set_ms += by_ms
        for stream in self.streams.values():
            for key in stream.keys:
                key.at_ms += by_ms
            stream.times = {each: times.later_by(by_ms) for each, times in stream.times.items()}
            for group in stream.groups.values():
                group.set_clock(by_ms)
        self.commits = {
            writer: (batch, at_ms + by_ms) for writer, (batch, at_ms) in self.commits.items()
        }

    def drop_expired(self, now_ms: int) -> None:
        for name, stream in list(self.streams.items()):
            if stream.expires_at_ms is not None and stream.expires_at_ms <= now_ms:
                del self.streams[name]

    def expire_in(self, name: bytes, left_ms: int, condition: bytes | None, now_ms: int) -> int:
        """Set when a stream goes (PEXPIRE). Without a time it is as if that were never."""
        if name not in self.streams:
            return 0
        stream, at_ms = self.streams[name], now_ms + left_ms
        before = float("inf") if stream.expires_at_ms is None else stream.expires_at_ms
        may = {
            None: True,
            b"NX": stream.expires_at_ms is None,
            b"XX": stream.expires_at_ms is not None,
            b"GT": at_ms > before,
            b"LT": at_ms < before,
        }
        if not may[condition]:
            return 0
        stream.expires_at_ms = at_ms
        self.drop_expired(now_ms)
        return 1

    def persist(self, name: bytes) -> int:
        if name not in self.streams or self.streams[name].expires_at_ms is None:
            return 0
        self.streams[name].expires_at_ms = None
        return 1

    def time_left(self, name: bytes, now_ms: int) -> int:
        if name not in self.streams:
            return -2
        at_ms = self.streams[name].expires_at_ms
        return -1 if at_ms is None else at_ms - now_ms

    def list_streams(self, prefix: bytes, after: bytes | None, limit: int) -> list[StreamInfo]:
        names = sorted(name for name in self.streams if name.startswith(prefix))
        names = [name for name in names if after is None or name > after]
        return [self.stream_info(name) for name in names[:limit]]

    def stream_info(self, name: bytes) -> StreamInfo:
        stream = self._stream(name)
        entries = stream.entries
        return StreamInfo(
            name=name,
            epoch=stream.epoch,
            config=stream.config,
            length=len(entries),
            chunk_count=len(stream.nodes),
            first_id=stream.first_id,
            last_id=stream.last_id,
            max_deleted_id=stream.deleted_max,
            trimmed_through=stream.trimmed_max,
            entries_added=stream.added,
            group_count=len(stream.groups),
            closed_at_ms=stream.closed_at_ms,
            archived_count=len(stream.archive),
            archived_first_id=min(stream.archive, default=None),
            gone_through=stream.gone_max,
        )

    # Entries

    def add_once(
        self,
        name: bytes,
        drafts: Sequence[Draft],
        idempotent: Idempotent | None,
        *,
        create_stream: bool,
        expected_last_id: EntryId | None,
        trim: TrimTo | None,
        now_ms: int,
        attributes: AttributeChange = AttributeChange({}),  # noqa: B008
        is_new: bool = False,
    ) -> Added:
        if trim is not None:
            check_trim(trim, "trim")
        if name not in self.streams and not create_stream:
            raise StreamNotFound(name)
        if idempotent is not None and name in self.streams:
            made = self._made_before(self.streams[name], idempotent, now_ms)
            if made is not None:
                return Added(made.ids, is_repeat=True)
        if name in self.streams and is_new:
            raise StreamExists(name)
        last_id = self._last_id_before(name, expected_last_id)
        self._check_attributes(name, attributes)
        entries: list[Entry] = []
        for index, draft in enumerate(drafts):
            check_fields(draft.fields, index)
            last_id = generate_id(draft.id, last_id, index, now_ms)
            entries.append(Entry(last_id, draft.fields))
        stream = self.streams.get(name) or self._make(name, StreamConfig(), now_ms)
        self._set_attributes(stream, attributes)
        for entry in entries:
            stream.append(entry, self.node_max)
        ids = [entry.id for entry in entries]
        stream.looked -= set(ids)
        times = {
            each: times_of(draft.timing, now_ms) for each, draft in zip(ids, drafts, strict=True)
        }
        stream.times |= {each: both for each, both in times.items() if both is not None}
        if ids and idempotent is not None:
            self._remember(stream, UsedKey(*idempotent[:2], ids, idempotent.digest, now_ms))
        if ids:
            self._trim_after(stream, trim, now_ms)
        return Added(ids, is_repeat=False)

    def change_attributes(self, name: bytes, change: AttributeChange) -> None:
        """Ours: give attributes other values, if others are as expected."""
        stream = self._stream(name)
        self._check_attributes(name, change)
        self._set_attributes(stream, change)

    def get_attributes(self, name: bytes, names: Sequence[bytes] | None) -> dict[bytes, bytes]:
        there = self._stream(name).attributes
        return {each: there[each] for each in there if names is None or each in names}

    def _check_attributes(self, name: bytes, change: AttributeChange) -> None:
        there = self.streams[name].attributes if name in self.streams else {}
        if any(there.get(each) != value for each, value in change.expected.items()):
            raise StreamsChanged

    def _set_attributes(self, stream: RefStream, change: AttributeChange) -> None:
        both = stream.attributes | dict(change.values)
        stream.attributes = {name: value for name, value in both.items() if value is not None}

    def _last_id_before(self, name: bytes, expected: EntryId | None) -> EntryId:
        if name in self.streams and self.streams[name].closed_at_ms is not None:
            raise ClosedToAppends(name)
        last_id = self.streams[name].last_id if name in self.streams else MIN_ID
        if expected not in (None, last_id):
            raise LastIdMismatch(expected=expected, last_id=last_id)
        return last_id

    def close_stream(self, request: CloseStream, now_ms: int) -> ClosedStream:
        """Ours: append the last entries, and let no others come."""
        added = Added([], is_repeat=False)
        if request.drafts:
            added = self.add_once(
                request.stream,
                request.drafts,
                request.idempotent,
                create_stream=request.create_stream,
                expected_last_id=request.expected_last_id,
                trim=None,
                now_ms=now_ms,
            )
        stream = self._stream(request.stream)
        if stream.closed_at_ms is None:
            if not request.drafts and request.expected_last_id not in (None, stream.last_id):
                raise LastIdMismatch(expected=request.expected_last_id, last_id=stream.last_id)
            stream.closed_at_ms = now_ms
        return ClosedStream(*added, stream.epoch, stream.closed_at_ms)

    def _trim_after(self, stream: RefStream, trim: TrimTo | None, now_ms: int) -> None:
        """Ours: both the retention and the request look at the stream as it is after the append."""
        retained = self._too_old_or_many(stream, now_ms)
        if trim is not None:
            self._trim(stream, trim)
        stream.trim([entry_id for entry_id in retained if stream.get(entry_id) is not None])

    def _trim(self, stream: RefStream, request: TrimTo) -> int:
        gone = stream.to_trim(request, self.node_max)
        if request.references is References.DELETE:
            stream.purge(gone)
        return stream.trim(gone)

    def _retain(self, stream: RefStream, now_ms: int) -> None:
        stream.trim(self._too_old_or_many(stream, now_ms))

    def _too_old_or_many(self, stream: RefStream, now_ms: int) -> list[EntryId]:
        """Ours: a stream can be configured to forget by number and by age."""
        gone: list[EntryId] = []
        if stream.config.max_length is not None:
            by_length = TrimTo(max_length=stream.config.max_length)
            gone += stream.to_trim(by_length, self.node_max)
        if stream.config.max_age_ms is not None:
            oldest = EntryId(max(now_ms - stream.config.max_age_ms, 0), 0)
            gone += stream.to_trim(TrimTo(min_id=oldest), self.node_max)
        return gone

    # Bulk

    def commit_batch(
        self,
        writer: bytes,
        batch: int,
        wanted: Mapping[bytes, Sequence[Draft]],
        *,
        create_streams: bool,
        now_ms: int,
    ) -> Committed:
        if batch <= self.commits.get(writer, (-1, 0))[0]:
            return Committed(is_repeat=True, streams=[])
        before = deepcopy(self.streams), self.epoch
        written = []
        name = b""
        try:
            for name, drafts in wanted.items():
                if drafts:
                    ids = self.add_once(
                        name,
                        drafts,
                        None,
                        create_stream=create_streams,
                        expected_last_id=None,
                        trim=None,
                        now_ms=now_ms,
                    ).ids
                    written.append(Written(name, len(ids), ids[0], ids[-1]))
        except StreamError as error:
            self.streams, self.epoch = before
            if isinstance(error, IdNotGreater | Invalid):
                error.location = ()
            if isinstance(error, IdNotGreater):
                error.stream = name
            raise
        self.commits[writer] = (batch, now_ms)
        return Committed(is_repeat=False, streams=written)

    def plan(self, cursors: Sequence[BulkCursor], entries_max: int | None) -> list[Portion]:
        frozen = []
        for name, asked, epoch in cursors:
            known = self.streams.get(name)
            after = asked
            if isinstance(after, From):
                after = MIN_ID if known is None else known.last_id
            elif known is not None and epoch not in (None, known.epoch):
                after = MIN_ID
            frozen.append((name, known, after))
        behind = [
            [] if known is None else [entry.id for entry in known.entries if entry.id > after]
            for _, known, after in frozen
        ]
        given = shares([len(ids) for ids in behind], 10**9 if entries_max is None else entries_max)
        planned = []
        for (name, known, after), ids, share in zip(frozen, behind, given, strict=True):
            end = ids[share - 1] if share else after
            if known is None:
                planned.append(Portion(name, None, after, end, 0, 0, MIN_ID, None, None))
                continue
            missed = MIN_ID < after < known.trimmed_max
            planned.append(
                Portion(
                    stream=name,
                    epoch=known.epoch,
                    after=after,
                    end=end,
                    entries=share,
                    backlog=len(ids),
                    last_id=known.last_id,
                    first_id=known.entries[0].id if known.entries else None,
                    gap=Gap(after, known.trimmed_max) if missed else None,
                )
            )
        return planned

    def split(self, name: bytes, after: EntryId, through: EntryId, parts: int) -> list[Split]:
        ids = [entry.id for entry in self._stream(name).entries if after < entry.id <= through]
        splits = []
        for part in range(parts, 0, -1):
            size = -(-len(ids) // part)
            if size:
                splits.append(Split(after, ids[size - 1], size))
                after, ids = ids[size - 1], ids[size:]
        return splits

    def count_by_time(self, request: CountByTime) -> Histogram:
        stream = self._stream(request.stream)
        ids = [entry.id for entry in stream.entries]
        first = ids[0] if ids else stream.last_id.next()
        start = first if request.start == MIN_ID else request.start
        end = stream.last_id if request.end == MAX_ID else request.end
        bucket_ms = max(-(-(end.ms - start.ms + 1) // request.buckets_max), 1)
        counts = [0] * ((end.ms - start.ms) // bucket_ms + 1 if start <= end else 0)
        for entry_id in ids:
            if start <= entry_id <= end:
                counts[(entry_id.ms - start.ms) // bucket_ms] += 1
        return Histogram(start.ms, end.ms, bucket_ms, counts)

    # Idempotency keys

    def _window_ms(self, stream: RefStream) -> int:
        own_ms = stream.config.idempotency_window_ms
        return self.defaults.idempotency_window_ms if own_ms is None else own_ms

    def _keys_max(self, stream: RefStream) -> int:
        own = stream.config.idempotency_max
        return self.defaults.idempotency_max if own is None else own

    def _protects(self, stream: RefStream, used_key: UsedKey, now_ms: int) -> bool:
        """Ours: a key protects from the moment of its use, whatever the time in the entry's id."""
        return now_ms - used_key.at_ms <= self._window_ms(stream)

    def _find_key(
        self, stream: RefStream, producer: bytes, key: bytes, now_ms: int
    ) -> UsedKey | None:
        for item in stream.keys:
            if (item.producer, item.key) == (producer, key) and self._protects(
                stream, item, now_ms
            ):
                return item
        return None

    def _made_before(
        self, stream: RefStream, idempotent: Idempotent, now_ms: int
    ) -> UsedKey | None:
        made = self._find_key(stream, idempotent.producer, idempotent.key, now_ms)
        if made is not None:
            # Ours: a key can be bound to its request, and then another request is a mistake.
            if idempotent.digest not in (b"", made.digest):
                raise IdempotencyMismatch(idempotent.key)
            stream.keys_repeated += 1
        return made

    def _remember(self, stream: RefStream, used: UsedKey) -> None:
        place = used.producer, used.key
        stream.keys = [key for key in stream.keys if (key.producer, key.key) != place]
        stream.keys.append(used)
        stream.keys_added += 1
        of_producer = [key for key in stream.keys if key.producer == used.producer]
        if len(of_producer) > self._keys_max(stream):
            stream.keys.remove(of_producer[0])

    def record_key(
        self, name: bytes, producer: bytes, key: bytes, entry_id: EntryId, now_ms: int
    ) -> str:
        """Note the key of a live entry (XIDMPRECORD)."""
        stream = self._stream(name)
        if stream.get(entry_id) is None:
            raise CommandError("ERR No such message in stream")
        made = self._find_key(stream, producer, key, now_ms)
        if made is None:
            self._remember(stream, UsedKey(producer, key, [entry_id], b"", now_ms))
        elif made.ids[0] != entry_id:
            text = "IID already exists for this producer with a different stream ID"
            raise CommandError(f"ERR {text}")
        return "OK"

    # Reading

    def length(self, name: bytes) -> int:
        return len(self.streams[name].entries) if name in self.streams else 0

    def range(
        self, name: bytes, start: EntryId, end: EntryId, limit: int | None, size_max: int | None
    ) -> list[Entry]:
        entries = [entry for entry in self._stream(name).entries if start <= entry.id <= end]
        return fitting(entries[:limit], size_max)

    def reverse_range(
        self, name: bytes, end: EntryId, start: EntryId, limit: int | None, size_max: int | None
    ) -> list[Entry]:
        entries = [entry for entry in self._stream(name).entries if start <= entry.id <= end]
        return fitting(entries[::-1][:limit], size_max)

    def read(
        self,
        cursors: Sequence[StreamCursor],
        limit: int | None,
        size_max: int | None,
        *,
        missing_ok: bool,
        archived: bool = False,
    ) -> list[StreamRead]:
        for cursor in cursors:
            if not missing_ok:
                self._stream(cursor.stream)
        reads: list[StreamRead] = []
        for cursor in cursors:
            taken = [entry for read in reads for entry in read.entries]
            is_over = size_max is not None and sum(item.size_bytes for item in taken) >= size_max
            share = None if size_max is None else size_max // len(cursors)
            left = 0 if taken and is_over else limit
            reads.append(self._read_one(cursor, left, share, archived=archived))
        return reads

    def _read_one(
        self, cursor: StreamCursor, limit: int | None, size_max: int | None, *, archived: bool
    ) -> StreamRead:
        stream = self.streams.get(cursor.stream, RefStream(0, StreamConfig()))
        after = MIN_ID
        if isinstance(cursor.after, EntryId):
            after = cursor.after
        elif cursor.after is From.NOW:
            after = stream.last_id
        readable = stream.everything if archived else stream.entries
        entries = fitting([entry for entry in readable if entry.id > after][:limit], size_max)
        if cursor.after is From.LAST:
            entries = stream.entries[-1:][:limit]
        # Ours: a cursor above 0-0 that trimming has overtaken learns what it missed.
        gone_max = stream.gone_max if archived else stream.trimmed_max
        missed = MIN_ID < after < gone_max
        next_after = entries[-1].id if entries else (gone_max if missed else after)
        has_more = any(entry.id > next_after for entry in readable)
        return StreamRead(
            stream=cursor.stream,
            entries=entries,
            next_after=next_after,
            last_id=stream.last_id,
            gap=Gap(after, gone_max) if missed else None,
            after=after,
            closed_at_ms=None if has_more else stream.closed_at_ms,
            times={each.id: stream.times[each.id] for each in entries if each.id in stream.times},
            archived=bool(entries) and entries[0].id < min(stream.ids, default=MAX_ID),
        )

    # Removing

    def delete(
        self,
        name: bytes,
        ids: Sequence[EntryId],
        references: References,
        *,
        archived: bool = False,
    ) -> list[Deletion]:
        stream = self._stream(name)
        return [self._delete(stream, each, references, archived=archived) for each in ids]

    def _delete(
        self,
        stream: RefStream,
        entry_id: EntryId,
        references: References,
        *,
        archived: bool = False,
    ) -> Deletion:
        if references is References.ACKED and stream.is_needed(entry_id):
            return Deletion.REFERENCED  # looked at first, even for an id that was never there
        if references is References.DELETE:
            stream.purge([entry_id])
        if stream.get(entry_id) is None:
            was_archived = stream.archive.pop(entry_id, None) is not None
            return Deletion.DELETED if archived and was_archived else Deletion.NOT_FOUND
        stream.remove([entry_id])
        stream.deleted_max = max(stream.deleted_max, entry_id)
        return Deletion.DELETED

    def trim(self, name: bytes, request: TrimTo) -> int:
        check_trim(request)
        return self._trim(self._stream(name), request)

    def trim_archive(self, name: bytes, before: EntryId | None) -> int:
        return self._stream(name).trim_archive(before)

    def everything(self, name: bytes, start: EntryId, end: EntryId) -> list[Entry]:
        return [each for each in self._stream(name).everything if start <= each.id <= end]

    def set_stream(
        self, name: bytes, last_id: EntryId, entries_added: int | None, deleted_max: EntryId
    ) -> None:
        stream = self._stream(name)
        if last_id < stream.deleted_max:
            raise CounterTooLow("last_id", "max_deleted_id", "the greatest id ever deleted")
        if stream.ids and last_id < stream.ids[-1]:
            raise CounterTooLow("last_id", "newest", "the id of the newest entry")
        if entries_added is not None and entries_added < len(stream.ids):
            raise CounterTooLow("entries_added", "length", "the number of entries")
        stream.set_last_id(last_id)
        if entries_added is not None:
            stream.added = entries_added
        if deleted_max != MIN_ID:
            stream.deleted_max = deleted_max


def fitting(entries: Sequence[Entry], size_max: int | None) -> list[Entry]:
    """Return the first entry, and what follows it within a bound in bytes (ours)."""
    taken: list[Entry] = []
    for entry in entries:
        size = sum(item.size_bytes for item in [*taken, entry])
        if taken and size_max is not None and size > size_max:
            break
        taken.append(entry)
    return taken


def generate_id(asked: IdRequest, last_id: EntryId, index: int, now_ms: int) -> EntryId:
    if asked == MIN_ID:
        raise IdNotGreater(asked, last_id=last_id, index=index)
    if last_id == MAX_ID:
        raise IdsExhausted
    if asked is None:
        if now_ms > last_id.ms:
            return EntryId(now_ms, 0)
        is_full = last_id.seq == MAX_ID.seq
        return EntryId(last_id.ms + 1, 0) if is_full else EntryId(last_id.ms, last_id.seq + 1)
    wanted = asked
    if isinstance(asked, PartialId):
        seq = last_id.seq + 1 if asked.ms == last_id.ms else 0
        asked = EntryId(asked.ms, seq if seq <= MAX_ID.seq else 0)
    if asked <= last_id:
        raise IdNotGreater(wanted, last_id=last_id, index=index)
    return asked


def check_fields(fields: Fields, index: int) -> None:
    if not fields or len(fields) % 2:
        text = "an entry has a name and a value, or several of each"
        raise Invalid(text, location=("drafts", index, "fields"))


def check_trim(request: TrimTo, *at: str) -> None:
    if request.max_length is not None and request.min_id is not None:
        raise Invalid(
            "a trim goes by max_length or by min_id, not by both", location=(*at, "min_id")
        )
    if request.max_length is None and request.min_id is None:
        raise Invalid("a trim goes by max_length or by min_id", location=(*at, "max_length"))
    if request.max_length is not None and request.max_length < 0:
        raise Invalid("max_length is 0 or more", location=(*at, "max_length"))
    if request.limit is not None and request.limit < 0:
        raise Invalid("limit is 0 or more", location=(*at, "limit"))
    if request.limit is not None and not request.approximate:
        raise Invalid("only an approximate trim has a limit", location=(*at, "limit"))


def times_of(timing: Timing | None, now_ms: int) -> EntryTimes | None:
    """Ours: return when an entry is due and expires."""
    if timing is None:
        return None
    due_ms = timing.deliver_at_ms if timing.delay_ms is None else now_ms + timing.delay_ms
    deadline_ms = timing.expires_at_ms if timing.ttl_ms is None else now_ms + timing.ttl_ms
    if due_ms is not None and due_ms <= now_ms:
        due_ms = None
    return None if due_ms is deadline_ms is None else EntryTimes(due_ms, deadline_ms)
