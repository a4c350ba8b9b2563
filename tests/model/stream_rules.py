"""Rules about streams, their entries, their names and their idempotency keys."""

from __future__ import annotations

import asyncio

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import rule

from headgate.engine.config import Patch, StreamConfig
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId, PartialId, Timing
from headgate.engine.limits import U64_MAX
from headgate.engine.replies import StreamInfo
from headgate.engine.requests.attributes import (
    AttributeChange,
    ChangeAttributes,
    GetAttributes,
)
from headgate.engine.requests.bulk import BulkCursor, CommitBatch, PlanRead, SplitRange
from headgate.engine.requests.entries import (
    Add,
    Delete,
    From,
    Range,
    RangePacked,
    Read,
    References,
    StreamCursor,
    Trim,
    TrimArchive,
    TrimTo,
)
from headgate.engine.requests.histogram import CountByTime
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import RenameStream, SetCounters
from headgate.engine.requests.streams import (
    CloseStream,
    CreateStream,
    DeleteStream,
    DescribeStream,
    ListStreams,
    UpdateStream,
)
from tests.model.machine import (
    START_MS,
    Command,
    Machine,
    Pick,
    counts,
    fixed_ids,
    pick_lists,
    picks,
    references,
    sizes,
    streams,
)
from tests.model.snapshot import unsized
from tests.packed_runs import entries_in

HOUSEKEEPING_MS = 1_500  # how long to let housekeeping run: once

explicit = st.one_of(
    st.builds(EntryId, st.integers(START_MS, START_MS + 40), st.integers(0, 3)),
    st.builds(PartialId, st.integers(START_MS - 5, START_MS + 40)),
    st.sampled_from([MIN_ID, PartialId(0), EntryId(START_MS, U64_MAX)]),
)
id_requests = st.one_of(st.none(), st.none(), st.none(), explicit)
fields = st.one_of(
    st.builds(lambda value: (b"f", b"%d" % value), st.integers(0, 9)),
    st.builds(lambda value: (b"f", b"%d" % value), st.sampled_from([3, 7])),
    st.sampled_from([(b"a", b"1", b"a", b"2"), (b"x", b""), (b"a", b"1", b"b"), ()]),
)
timings = st.builds(
    Timing,
    delay_ms=st.sampled_from([None, None, 0, 5, 30]),
    deliver_at_ms=st.none(),
    ttl_ms=st.sampled_from([None, None, 40, 100]),
    expires_at_ms=st.none(),
)
drafts = st.builds(Draft, id_requests, fields, st.one_of(st.none(), st.none(), timings))
trims = st.builds(
    TrimTo,
    max_length=st.one_of(st.none(), st.integers(0, 6)),
    min_id=st.one_of(st.none(), fixed_ids),
    approximate=st.booleans(),
    limit=st.sampled_from([None, None, None, 0, 1, 3, 4]),
    references=references,
)
configs = st.builds(
    StreamConfig,
    max_length=st.sampled_from([None, None, None, 0, 2, 5]),
    max_age_ms=st.sampled_from([None, None, None, 0, 30, 100]),
    idempotency_window_ms=st.sampled_from([None, None, 10, 60]),
    idempotency_max=st.sampled_from([None, None, 1, 2]),
    archive=st.booleans(),
)
CONFIG_FIELDS = StreamConfig.__struct_fields__
idempotents = st.builds(
    Idempotent,
    producer=st.sampled_from([b"p", b"p", b"q"]),
    key=st.sampled_from([b"1", b"2", b"3"]),
    digest=st.sampled_from([b"", b"", b"", b"x", b"y"]),
)

attributes = st.sampled_from([b"a", b"b", b"\xff"])
changes = st.builds(
    AttributeChange,
    st.dictionaries(attributes, st.sampled_from([None, b"", b"1", b"2"]), max_size=3),
    st.dictionaries(attributes, st.sampled_from([None, b"1"]), max_size=1),
)


class StreamRules(Machine):
    """Commands on streams."""

    @rule(delta_ms=st.sampled_from([1, 5, 10, 20, 60, 200, -30, -7]))
    def time_passes(self, delta_ms: int) -> None:
        self.pass_time(delta_ms)

    # Entries

    @rule(
        stream=streams,
        batch=st.lists(drafts, max_size=3),
        create=st.sampled_from([True, True, False]),
        expected=st.one_of(st.none(), st.none(), st.none(), picks),
        trim=st.one_of(st.none(), st.none(), trims),
    )
    def add(
        self,
        stream: bytes,
        batch: list[Draft],
        create: bool,
        expected: Pick | EntryId | None,
        trim: TrimTo | None,
    ) -> None:
        last_id = None if expected is None else self.pick(stream, expected)
        kind, added = self.both(
            self.engine.perform(
                Add(stream, batch, create_stream=create, expected_last_id=last_id, trim=trim)
            ),
            lambda: self.reference.add_once(
                stream,
                batch,
                None,
                create_stream=create,
                expected_last_id=last_id,
                trim=trim,
                now_ms=self.clock.now_ms,
            ),
        )
        if kind == "reply":
            self.given_out.setdefault(stream, []).extend(added.ids)

    # Bulk

    @rule(
        writer=st.sampled_from([b"w", b"w", b"v"]),
        batch=st.integers(0, 5),
        wanted=st.dictionaries(streams, st.lists(drafts, max_size=3), max_size=2),
        create=st.sampled_from([True, True, False]),
    )
    def commit_batch(
        self, writer: bytes, batch: int, wanted: dict[bytes, list[Draft]], create: bool
    ) -> None:
        kind, committed = self.both(
            self.engine.perform(CommitBatch(writer, batch, wanted, create_streams=create)),
            lambda: self.reference.commit_batch(
                writer, batch, wanted, create_streams=create, now_ms=self.clock.now_ms
            ),
        )
        for stream in committed.streams if kind == "reply" else ():
            self.given_out.setdefault(stream.stream, []).extend(
                sorted({stream.first_id, stream.last_id})
            )

    @rule(
        afters=st.lists(st.one_of(picks, st.just(From.NOW)), min_size=2, max_size=2),
        is_of_this_life=st.sampled_from([None, True, False]),
        limit=counts,
    )
    def plan(
        self, afters: list[Pick | EntryId | From], is_of_this_life: bool | None, limit: int | None
    ) -> None:
        cursors = []
        for name, choice in zip([b"s", b"t"], afters, strict=True):
            after = choice if isinstance(choice, From) else self.pick(name, choice)
            known = self.reference.streams.get(name)
            epoch = None
            if is_of_this_life is not None and known is not None:
                epoch = known.epoch if is_of_this_life else known.epoch - 1
            cursors.append(BulkCursor(name, after, epoch))
        self.both(
            self.engine.perform(PlanRead(cursors, entries_max=limit)),
            lambda: self.reference.plan(cursors, limit),
        )

    @rule(stream=streams, after=picks, through=picks, parts=st.integers(1, 5))
    def split(
        self, stream: bytes, after: Pick | EntryId, through: Pick | EntryId, parts: int
    ) -> None:
        bounds = self.pick(stream, after), self.pick(stream, through)
        self.both(
            self.engine.perform(SplitRange(stream, *bounds, parts)),
            lambda: self.reference.split(stream, *bounds, parts),
        )

    @rule(
        stream=streams,
        start=st.one_of(st.just(MIN_ID), picks),
        end=st.one_of(st.just(MAX_ID), picks),
        buckets=st.integers(1, 5),
    )
    def count_by_time(
        self, stream: bytes, start: Pick | EntryId, end: Pick | EntryId, buckets: int
    ) -> None:
        request = CountByTime(
            stream, self.pick(stream, start), self.pick(stream, end), buckets_max=buckets
        )
        self.both(self.engine.perform(request), lambda: self.reference.count_by_time(request))

    # Idempotency

    @rule(
        stream=streams,
        size=st.integers(1, 3),
        idempotent=idempotents,
        create=st.sampled_from([True, True, False]),
        trim=st.one_of(st.none(), st.none(), trims),
    )
    def add_once(
        self,
        stream: bytes,
        size: int,
        idempotent: Idempotent,
        create: bool,
        trim: TrimTo | None,
    ) -> None:
        batch = [Draft(None, (b"f", b"v"))] * size  # a key goes with generated ids only
        kind, added = self.both(
            self.engine.perform(Add(stream, batch, idempotent, create_stream=create, trim=trim)),
            lambda: self.reference.add_once(
                stream,
                batch,
                idempotent,
                create_stream=create,
                expected_last_id=None,
                trim=trim,
                now_ms=self.clock.now_ms,
            ),
        )
        if kind == "reply" and not added.is_repeat:
            self.given_out.setdefault(stream, []).extend(added.ids)

    @rule(
        stream=streams,
        first=idempotents,
        second=idempotents,
        delta_ms=st.sampled_from([0, 0, 9, 11, 61, 2001]),
    )
    def add_again(
        self, stream: bytes, first: Idempotent, second: Idempotent, delta_ms: int
    ) -> None:
        """A retry that comes in time appends nothing; one that comes too late does."""
        self.add_once(stream, 1, first, True, None)
        self.add_once(stream, 2, second, True, None)
        self.pass_time(delta_ms)
        self.add_once(stream, 3, first, True, None)

    @rule(stream=streams, idempotent=idempotents, choice=picks)
    def record_key(self, stream: bytes, idempotent: Idempotent, choice: Pick | EntryId) -> None:
        producer, key, _ = idempotent
        entry_id = self.pick(stream, choice)
        self.run_words(
            [b"XIDMPRECORD", stream, producer, key, entry_id],
            lambda: self.reference.record_key(stream, producer, key, entry_id, self.clock.now_ms),
        )

    @rule(stream=streams, count=st.integers(1, 4))
    def add_plainly(self, stream: bytes, count: int) -> None:
        self.add(stream, [Draft(None, (b"f", b"v"))] * count, True, None, None)

    @rule(stream=streams, choices=pick_lists, spared=references)
    def delete(self, stream: bytes, choices: list[Pick | EntryId], spared: References) -> None:
        ids = self.pick_all(stream, choices)
        self.both(
            self.engine.perform(Delete(stream, ids, spared)),
            lambda: self.reference.delete(stream, ids, spared),
        )

    @rule(stream=streams, choices=pick_lists, spared=references)
    def delete_with_archive(
        self, stream: bytes, choices: list[Pick | EntryId], spared: References
    ) -> None:
        ids = self.pick_all(stream, choices)
        self.both(
            self.engine.perform(Delete(stream, ids, spared, archived=True)),
            lambda: self.reference.delete(stream, ids, spared, archived=True),
        )

    @rule(stream=streams, before=st.one_of(st.none(), picks, picks, picks))
    def trim_archive(self, stream: bytes, before: Pick | EntryId | None) -> None:
        entry_id = None if before is None else self.pick(stream, before)
        self.both(
            self.engine.perform(TrimArchive(stream, entry_id)),
            lambda: self.reference.trim_archive(stream, entry_id),
        )

    @rule(
        stream=streams,
        start=st.one_of(st.just(MIN_ID), picks),
        end=st.one_of(st.just(MAX_ID), picks),
        limit=st.integers(1, 4),
        size_max=sizes,
        reverse=st.booleans(),
        packed=st.booleans(),
    )
    def read_everything(
        self,
        stream: bytes,
        start: Pick | EntryId,
        end: Pick | EntryId,
        limit: int,
        size_max: int | None,
        reverse: bool,
        packed: bool,
    ) -> None:
        low, high = self.pick(stream, start), self.pick(stream, end)

        async def entries() -> list[Entry]:
            if packed:
                return await self.packed_pages(stream, low, high, limit, size_max or 10**6)
            paged = await self.pages(stream, (low, high), limit, size_max, reverse=reverse)
            return paged[::-1] if reverse else paged

        self.both(entries(), lambda: self.reference.everything(stream, low, high))

    async def pages(
        self,
        stream: bytes,
        bounds: tuple[EntryId, EntryId],
        limit: int,
        size_max: int | None,
        *,
        reverse: bool,
    ) -> list[Entry]:
        """Return a range with what is archived, read page by page."""
        entries, (low, high) = list[Entry](), bounds
        while True:
            page = await self.engine.perform(
                Range(stream, low, high, limit, size_max, reverse, archived=True)
            )
            assert len(page) <= limit
            entries += page
            if not page or page[-1].id in (MIN_ID, MAX_ID):
                return entries
            if reverse:
                high = page[-1].id.previous()
            else:
                low = page[-1].id.next()

    async def packed_pages(
        self, stream: bytes, low: EntryId, high: EntryId, limit: int, size_max: int
    ) -> list[Entry]:
        """Return the same, as chunks keep the entries."""
        entries: list[Entry] = []
        await self.engine.perform(DescribeStream(stream))
        while low <= high:
            page = await self.engine.perform(
                RangePacked(stream, low, high, limit, size_max, archived=True)
            )
            entries += entries_in(page.runs)
            if page.last_id == MAX_ID:
                break
            low = page.last_id.next()
        return entries

    @rule(stream=streams, request=trims)
    def trim(self, stream: bytes, request: TrimTo) -> None:
        self.both(
            self.engine.perform(Trim(stream, request)),
            lambda: self.reference.trim(stream, request),
        )

    @rule(
        stream=streams,
        last_id=picks,
        entries_added=st.one_of(st.none(), st.integers(0, 20)),
        deleted_max=st.one_of(st.just(MIN_ID), st.just(MIN_ID), picks),
    )
    def set_stream(
        self,
        stream: bytes,
        last_id: Pick | EntryId,
        entries_added: int | None,
        deleted_max: Pick | EntryId,
    ) -> None:
        last, deleted = self.pick(stream, last_id), self.pick(stream, deleted_max)
        deleted = min(last, deleted)  # what XSETID demands of its own words
        self.perform(
            Command(
                SetCounters(stream, last, entries_added, deleted),
                lambda: self.reference.set_stream(stream, last, entries_added, deleted),
            )
        )

    # Reading

    @rule(stream=streams, start=picks, end=picks, limit=counts, size_max=sizes)
    def read_ranges(
        self,
        stream: bytes,
        start: Pick | EntryId,
        end: Pick | EntryId,
        limit: int | None,
        size_max: int | None,
    ) -> None:
        low, high = self.pick(stream, start), self.pick(stream, end)
        self.both(
            self.engine.perform(Range(stream, low, high, limit=limit, size_bytes_max=size_max)),
            lambda: self.reference.range(stream, low, high, limit, size_max),
        )
        self.both(
            self.engine.perform(
                Range(
                    stream, end=high, start=low, reverse=True, limit=limit, size_bytes_max=size_max
                )
            ),
            lambda: self.reference.reverse_range(stream, high, low, limit, size_max),
        )

    @rule(
        places=st.lists(
            st.tuples(streams, st.one_of(picks, st.sampled_from(From))), min_size=1, max_size=3
        ),
        limit=counts,
        size_max=sizes,
        wait_ms=st.sampled_from([0, 5]),
        missing_ok=st.booleans(),
        archived=st.booleans(),
    )
    def read(
        self,
        places: list[tuple[bytes, Pick | EntryId | From]],
        limit: int | None,
        size_max: int | None,
        wait_ms: int,
        missing_ok: bool,
        archived: bool,
    ) -> None:
        cursors = [
            StreamCursor(name, after if isinstance(after, From) else self.pick(name, after))
            for name, after in places
        ]
        self.both(
            self.engine.perform(
                Read(
                    cursors,
                    limit=limit,
                    size_bytes_max=size_max,
                    wait_ms=wait_ms,
                    missing_ok=missing_ok,
                    archived=archived,
                )
            ),
            lambda: self.reference.read(
                cursors, limit, size_max, missing_ok=missing_ok, archived=archived
            ),
        )

    # Streams

    @rule(stream=streams, config=configs)
    def create_stream(self, stream: bytes, config: StreamConfig) -> None:
        self.both(
            self.is_new(self.engine.perform(CreateStream(stream, config))),
            lambda: self.reference.create_stream(stream, config, self.clock.now_ms),
        )

    @rule(stream=streams, config=configs, changed=st.sets(st.sampled_from(CONFIG_FIELDS)))
    def update_stream(self, stream: bytes, config: StreamConfig, changed: set[str]) -> None:
        patch = Patch.of(StreamConfig, **{name: getattr(config, name) for name in changed})

        async def update() -> StreamConfig:
            return (await self.engine.perform(UpdateStream(stream, patch))).config

        self.both(update(), lambda: self.reference.update_stream(stream, patch, self.clock.now_ms))

    @rule(
        stream=streams,
        batch=st.lists(drafts, max_size=2),
        change=changes,
        is_new=st.sampled_from([False, False, True]),
    )
    def add_with_attributes(
        self, stream: bytes, batch: list[Draft], change: AttributeChange, is_new: bool
    ) -> None:
        kind, added = self.both(
            self.engine.perform(Add(stream, batch, attributes=change, is_new=is_new)),
            lambda: self.reference.add_once(
                stream,
                batch,
                None,
                create_stream=True,
                expected_last_id=None,
                trim=None,
                now_ms=self.clock.now_ms,
                attributes=change,
                is_new=is_new,
            ),
        )
        if kind == "reply":
            self.given_out.setdefault(stream, []).extend(added.ids)

    @rule(stream=streams, change=changes, names=st.none() | st.lists(attributes, max_size=2))
    def change_attributes(
        self, stream: bytes, change: AttributeChange, names: list[bytes] | None
    ) -> None:
        self.both(
            self.engine.perform(ChangeAttributes(stream, change)),
            lambda: self.reference.change_attributes(stream, change),
        )
        self.both(
            self.engine.perform(GetAttributes(stream, names)),
            lambda: self.reference.get_attributes(stream, names),
        )

    @rule(stream=streams, really=st.integers(0, 9))
    def delete_stream(self, stream: bytes, really: int) -> None:
        if really == 0:
            self.both(
                self.engine.perform(DeleteStream(stream)),
                lambda: self.reference.delete_stream(stream),
            )

    @rule(
        stream=streams,
        batch=st.lists(drafts, max_size=2),
        expected=st.one_of(st.none(), st.none(), st.none(), picks),
        create=st.sampled_from([True, True, False]),
        really=st.integers(0, 4),
    )
    def close_stream(
        self,
        stream: bytes,
        batch: list[Draft],
        expected: Pick | EntryId | None,
        create: bool,
        really: int,
    ) -> None:
        if really == 0:
            last_id = None if expected is None else self.pick(stream, expected)
            self._close(CloseStream(stream, batch, create_stream=create, expected_last_id=last_id))

    @rule(stream=streams, idempotent=idempotents, size=st.integers(0, 2), really=st.integers(0, 3))
    def close_once(self, stream: bytes, idempotent: Idempotent, size: int, really: int) -> None:
        """A retry of the close is answered as it was before."""
        if really == 0:
            batch = [Draft(None, (b"f", b"v"))] * size
            for _ in range(2):
                self._close(CloseStream(stream, batch, idempotent))

    def _close(self, request: CloseStream) -> None:
        kind, closed = self.both(
            self.engine.perform(request),
            lambda: self.reference.close_stream(request, self.clock.now_ms),
        )
        if kind == "reply" and not closed.is_repeat:
            self.given_out.setdefault(request.stream, []).extend(closed.ids)

    @rule(stream=streams, to=streams)
    def rename(self, stream: bytes, to: bytes) -> None:
        kind, _ = self.perform(
            Command(
                RenameStream(stream, to),
                lambda: self.reference.rename(stream, to),
            )
        )
        if kind == "reply":
            self.given_out[to] = self.given_out.pop(stream, [])

    @rule(
        stream=streams,
        left_ms=st.sampled_from([30, 100, 300, 300, 1000, 1000, 0, -5]),
        condition=st.sampled_from([None, None, None, b"NX", b"XX", b"GT", b"LT"]),
    )
    def expire(self, stream: bytes, left_ms: int, condition: bytes | None) -> None:
        self.run_words(
            [b"PEXPIRE", stream, left_ms, *([condition] if condition else [])],
            lambda: self.reference.expire_in(stream, left_ms, condition, self.clock.now_ms),
        )

    @rule(stream=streams)
    def persist(self, stream: bytes) -> None:
        self.run_words(
            [b"PTTL", stream], lambda: self.reference.time_left(stream, self.clock.now_ms)
        )
        self.run_words([b"PERSIST", stream], lambda: self.reference.persist(stream))

    @rule(
        prefix=st.sampled_from([b"", b"s", b"x"]),
        after=st.sampled_from([None, b"", b"a", b"s", b"t"]),
        limit=st.integers(1, 2),
    )
    def list_streams(self, prefix: bytes, after: bytes | None, limit: int) -> None:
        async def listed() -> list[StreamInfo]:
            request = ListStreams(prefix=prefix, after=after, limit=limit)
            return list(map(unsized, await self.engine.perform(request)))

        self.both(
            listed(),
            lambda: self.reference.list_streams(prefix, after, limit),
        )

    # What holds for all of them

    @rule(
        entries_max=st.sampled_from([0, 1, 2, 3, 3, 4]),
        window_s=st.sampled_from([1, 2]),
        keys_max=st.sampled_from([1, 2, 3]),
    )
    def set_defaults(self, entries_max: int, window_s: int, keys_max: int) -> None:
        def expect() -> str:
            now = self.reference.defaults
            self.reference.defaults = msgspec.structs.replace(
                now,
                node_limits=now.node_limits._replace(entries_max=entries_max),
                idempotency_window_ms=window_s * 1000,
                idempotency_max=keys_max,
            )
            return "OK"

        nodes = [b"stream-node-max-entries", entries_max]
        keys = [b"stream-idmp-duration", window_s, b"stream-idmp-maxsize", keys_max]
        self.run_words([b"CONFIG", b"SET", *nodes, *keys], expect)

    @rule()
    def run_housekeeping(self) -> None:
        async def once() -> None:
            task = self.loop.create_task(self.engine.run_housekeeping())
            self.loop.call_later(HOUSEKEEPING_MS / 1000, task.cancel)
            await asyncio.wait([task])

        self.both(once(), lambda: self.reference.run_housekeeping(self.clock.now_ms))
