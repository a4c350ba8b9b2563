"""The engine and the obvious implementation, side by side through any history.

After every command both must have answered the same, and everything that can be asked about a
stream must have the same answer. After every history its records must lead to the same state again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine import commands
from engine.decisions.deliveries import ClaimRequest, GroupCursor, GroupRequest, NackMode
from engine.decisions.groups import GroupStart
from engine.decisions.streams import References, TrimRequest
from engine.defaults import Defaults
from engine.engine import Engine
from engine.entry import MAX_ID, MIN_ID, Draft, EntryId, IdRequest, PartialId
from engine.errors import StreamError
from engine.keyspace import Keyspace
from engine.limits import U64_MAX
from engine.log import NodeLimits
from engine.storage import MemoryStorage
from engine.stream import StreamConfig
from engine.views import From, PendingRequest, StreamCursor
from tests.model.reference import Reference
from tests.model.snapshot import held_by, snapshot
from tests.virtual_time import HandClock, VirtualLoop

NODE_MAX = 3
LIMITS = NodeLimits(entries_max=NODE_MAX, size_bytes_max=0)
START_MS = 1_000
RETENTION_MS = 1_500  # how long to let the retention task run: once


class Pick(NamedTuple):
    """An id chosen when the history is known: one the stream has given out, or a neighbour."""

    back: int  # counted from the newest
    shift: int  # -1: the id below, 1: the id above
    is_pending: bool = False  # only what is pending in one of the stream's groups


streams = st.sampled_from([*[b"s"] * 7, b"t"])
groups = st.sampled_from([b"g", b"g", b"g", b"h"])
consumers = st.sampled_from([b"a", b"b"])
durations = st.sampled_from([0, 0, 1, 10, 50])
counts = st.one_of(st.none(), st.integers(1, 4))
fixed_ids = st.one_of(
    st.builds(EntryId, st.integers(START_MS - 5, START_MS + 40), st.integers(0, 3)),
    st.sampled_from([MIN_ID, EntryId(0, 1), EntryId(5, U64_MAX), MAX_ID]),
)
picks = st.one_of(
    st.builds(Pick, st.integers(0, 12), st.just(0)),
    st.builds(Pick, st.integers(0, 12), st.sampled_from([-1, 0, 1])),
    fixed_ids,
)
pick_lists = st.lists(picks, min_size=1, max_size=4)
pending_picks = st.builds(Pick, st.integers(0, 5), st.just(0), st.just(True))
pending_lists = st.lists(st.one_of(pending_picks, pending_picks, picks), min_size=1, max_size=4)
explicit = st.one_of(
    st.builds(EntryId, st.integers(START_MS, START_MS + 40), st.integers(0, 3)),
    st.builds(PartialId, st.integers(START_MS - 5, START_MS + 40)),
    st.sampled_from([MIN_ID, PartialId(0), EntryId(START_MS, U64_MAX)]),
)
id_requests = st.one_of(st.none(), st.none(), st.none(), explicit)
fields = st.one_of(
    st.builds(lambda value: (b"f", b"%d" % value), st.integers(0, 9)),
    st.sampled_from([(b"a", b"1", b"a", b"2"), (b"x", b""), (b"a", b"1", b"b"), ()]),
)
drafts = st.builds(Draft, id_requests, fields)
trims = st.builds(
    TrimRequest,
    max_length=st.one_of(st.none(), st.integers(0, 6)),
    min_id=st.one_of(st.none(), fixed_ids),
    approximate=st.booleans(),
    limit=st.sampled_from([None, None, None, 0, 1, 3, 4]),
    references=st.just(References.KEEP),  # the others are worked examples of Redis 8
)
configs = st.builds(
    StreamConfig,
    max_length=st.sampled_from([None, None, None, 0, 2, 5]),
    max_age_ms=st.sampled_from([None, None, None, 0, 30, 100]),
    idempotency_window_ms=st.none(),
    idempotency_max=st.none(),
)
Answer = tuple[str, Any]


class EngineMachine(RuleBasedStateMachine):
    """Runs each command on both and compares the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.clock = HandClock(START_MS)
        self.storage = MemoryStorage()
        self.engine = Engine(self.storage, clock=self.clock)
        self.engine.keyspace.defaults = Defaults(node_limits=LIMITS)
        self.reference = Reference(NODE_MAX)
        self.given_out: dict[bytes, list[EntryId]] = {}

    def both(self, ask: Awaitable[Any], expect: Callable[[], Any]) -> Answer:
        """Assert that engine and reference answer alike; returns the answer."""

        async def asked() -> Any:
            return await ask

        answer = answer_of(lambda: self.loop.run_until_complete(asked()))
        expected = answer_of(expect)
        assert answer == expected, f"\n  engine:    {answer}\n  reference: {expected}"
        return answer

    def pick(self, stream: bytes, choice: Pick | EntryId) -> EntryId:
        if isinstance(choice, EntryId):
            return choice
        known = self.pending_ids(stream) if choice.is_pending else self.given_out.get(stream, [])
        chosen = known[-1 - choice.back % len(known)] if known else EntryId(choice.back, 1)
        return {-1: chosen.previous(), 0: chosen, 1: chosen.next()}[choice.shift]

    def pending_ids(self, stream: bytes) -> list[EntryId]:
        found = self.reference.streams.get(stream)
        groups = [] if found is None else found.groups.values()
        return [one.id for group in groups for one in group.pel]

    def pick_all(self, stream: bytes, choices: list[Pick | EntryId]) -> list[EntryId]:
        return [self.pick(stream, choice) for choice in choices]

    # Time

    @rule(delta_ms=st.sampled_from([1, 5, 10, 20, 60, 200, -30, -7]))
    def time_passes(self, delta_ms: int) -> None:
        self.clock.now_ms += delta_ms

    # Streams and entries

    @initialize(count=st.integers(0, 10), read=st.integers(0, 6), later=st.integers(0, 60))
    def begin(self, count: int, read: int, later: int) -> None:
        """Start with something there, so that short histories reach far."""
        self.add(b"s", [Draft(None, (b"f", b"v"))] * count, True, None, None)
        self.create_group(b"s", b"g", MIN_ID, None, False)
        self.create_group(b"s", b"h", None, None, False)
        if read:
            self.read_group([(b"s", None)], GroupRequest(b"g", b"a", [], limit=read), 0)
        self.clock.now_ms += later

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
        trim: TrimRequest | None,
    ) -> None:
        last_id = None if expected is None else self.pick(stream, expected)
        kind, ids = self.both(
            self.engine.add(
                stream, batch, create_stream=create, expected_last_id=last_id, trim=trim
            ),
            lambda: self.reference.add(
                stream,
                batch,
                create_stream=create,
                expected_last_id=last_id,
                trim=trim,
                now_ms=self.clock.now_ms,
            ),
        )
        if kind == "reply":
            self.given_out.setdefault(stream, []).extend(ids)

    @rule(stream=streams, count=st.integers(1, 4))
    def add_plainly(self, stream: bytes, count: int) -> None:
        draft: IdRequest = None
        self.add(stream, [Draft(draft, (b"f", b"v"))] * count, True, None, None)

    @rule(stream=streams, config=configs)
    def create_stream(self, stream: bytes, config: StreamConfig) -> None:
        self.both(
            self.engine.create_stream(stream, config),
            lambda: self.reference.create_stream(stream, config, self.clock.now_ms),
        )

    @rule(stream=streams, config=configs)
    def configure_stream(self, stream: bytes, config: StreamConfig) -> None:
        self.both(
            self.engine.configure_stream(stream, config),
            lambda: self.reference.configure_stream(stream, config, self.clock.now_ms),
        )

    @rule(stream=streams, really=st.integers(0, 9))
    def delete_stream(self, stream: bytes, really: int) -> None:
        if really == 0:
            self.both(
                self.engine.delete_stream(stream), lambda: self.reference.delete_stream(stream)
            )

    @rule()
    def enforce_retention(self) -> None:
        async def once() -> None:
            task = self.loop.create_task(self.engine.keep_house())
            self.loop.call_later(RETENTION_MS / 1000, task.cancel)
            await asyncio.wait([task])

        self.both(once(), lambda: self.reference.enforce_retention(self.clock.now_ms))

    @rule(stream=streams, choices=pick_lists)
    def delete(self, stream: bytes, choices: list[Pick | EntryId]) -> None:
        ids = self.pick_all(stream, choices)
        self.both(self.engine.delete(stream, ids), lambda: self.reference.delete(stream, ids))

    @rule(stream=streams, request=trims)
    def trim(self, stream: bytes, request: TrimRequest) -> None:
        self.both(self.engine.trim(stream, request), lambda: self.reference.trim(stream, request))

    @rule(stream=streams, start=picks, end=picks, limit=counts)
    def read_ranges(
        self, stream: bytes, start: Pick | EntryId, end: Pick | EntryId, limit: int | None
    ) -> None:
        low, high = self.pick(stream, start), self.pick(stream, end)
        self.both(
            self.engine.range(stream, low, high, limit=limit),
            lambda: self.reference.range(stream, low, high, limit),
        )
        self.both(
            self.engine.reverse_range(stream, high, low, limit=limit),
            lambda: self.reference.reverse_range(stream, high, low, limit),
        )

    @rule(
        places=st.lists(
            st.tuples(streams, st.one_of(picks, st.sampled_from(From))), min_size=1, max_size=3
        ),
        limit=counts,
        wait_ms=st.sampled_from([0, 5]),
        missing_ok=st.booleans(),
    )
    def read(
        self,
        places: list[tuple[bytes, Pick | EntryId | From]],
        limit: int | None,
        wait_ms: int,
        missing_ok: bool,
    ) -> None:
        cursors = [
            StreamCursor(name, after if isinstance(after, From) else self.pick(name, after))
            for name, after in places
        ]
        self.both(
            self.engine.read(cursors, limit=limit, wait_ms=wait_ms, missing_ok=missing_ok),
            lambda: self.reference.read(cursors, limit, missing_ok=missing_ok),
        )

    # Groups and consumers

    @rule(
        stream=streams,
        group=groups,
        start=st.one_of(st.none(), picks, st.just(MIN_ID)),
        entries_read=st.one_of(st.none(), st.integers(0, 9)),
        create=st.booleans(),
    )
    def create_group(
        self,
        stream: bytes,
        group: bytes,
        start: Pick | EntryId | None,
        entries_read: int | None,
        create: bool,
    ) -> None:
        begin = GroupStart(None if start is None else self.pick(stream, start), entries_read)
        self.both(
            self.engine.create_group(stream, group, begin, create_stream=create),
            lambda: self.reference.create_group(
                stream, group, begin, create_stream=create, now_ms=self.clock.now_ms
            ),
        )

    @rule(
        stream=streams,
        group=groups,
        start=st.one_of(st.none(), picks),
        entries_read=st.one_of(st.none(), st.none(), st.integers(0, 9)),
    )
    def set_group(
        self, stream: bytes, group: bytes, start: Pick | EntryId | None, entries_read: int | None
    ) -> None:
        begin = GroupStart(None if start is None else self.pick(stream, start), entries_read)
        self.both(
            self.engine.set_group(stream, group, begin),
            lambda: self.reference.set_group(stream, group, begin),
        )

    @rule(stream=streams, group=groups, really=st.integers(0, 9))
    def destroy_group(self, stream: bytes, group: bytes, really: int) -> None:
        if really == 0:
            self.both(
                self.engine.destroy_group(stream, group),
                lambda: self.reference.destroy_group(stream, group),
            )

    @rule(stream=streams, group=groups, consumer=consumers)
    def create_consumer(self, stream: bytes, group: bytes, consumer: bytes) -> None:
        self.both(
            self.engine.create_consumer(stream, group, consumer),
            lambda: self.reference.create_consumer(stream, group, consumer, self.clock.now_ms),
        )

    @rule(stream=streams, group=groups, consumer=consumers, release=st.booleans())
    def delete_consumer(self, stream: bytes, group: bytes, consumer: bytes, release: bool) -> None:
        self.both(
            self.engine.delete_consumer(stream, group, consumer, release=release),
            lambda: self.reference.delete_consumer(stream, group, consumer, release=release),
        )

    # Delivery

    @rule(
        places=st.lists(
            st.tuples(streams, st.one_of(st.none(), st.none(), picks)),
            min_size=1,
            max_size=3,
        ),
        request=st.builds(
            GroupRequest,
            groups,
            consumers,
            cursors=st.just(()),
            limit=counts,
            claim_idle_ms=st.one_of(st.none(), durations),
            no_ack=st.sampled_from([False, False, True]),
            max_pending=st.one_of(st.none(), st.none(), st.integers(1, 4)),
            size_bytes_max=st.sampled_from([None, None, None, 0, 3, 5]),
            claim_own=st.sampled_from([True, True, False]),
        ),
        wait_ms=st.sampled_from([0, 0, 5]),
    )
    def read_group(
        self,
        places: list[tuple[bytes, Pick | EntryId | None]],
        request: GroupRequest,
        wait_ms: int,
    ) -> None:
        cursors = [
            GroupCursor(name, None if after is None else self.pick(name, after))
            for name, after in places
        ]
        asked = request._replace(cursors=cursors)
        self.both(
            self.engine.read_group(asked, wait_ms=wait_ms),
            lambda: self.reference.read_group(asked, self.clock.now_ms),
        )

    @rule(group=groups, consumer=consumers, limit=counts, claim_idle_ms=durations)
    def read_group_plainly(
        self, group: bytes, consumer: bytes, limit: int | None, claim_idle_ms: int
    ) -> None:
        request = GroupRequest(group, consumer, [], limit, claim_idle_ms)
        self.read_group([(b"s", None)], request._replace(claim_idle_ms=None), 0)
        self.read_group([(b"s", None)], request, 0)

    @rule(
        stream=streams,
        group=groups,
        choices=pending_lists,
        consumer=st.one_of(st.none(), consumers),
    )
    def ack(
        self, stream: bytes, group: bytes, choices: list[Pick | EntryId], consumer: bytes | None
    ) -> None:
        ids = self.pick_all(stream, choices)
        self.both(
            self.engine.ack(stream, group, ids, consumer=consumer),
            lambda: self.reference.ack(stream, group, ids, consumer),
        )

    @rule(
        stream=streams,
        group=groups,
        choices=pending_lists,
        mode=st.sampled_from(list(NackMode)),
        consumer=st.one_of(st.none(), consumers),
    )
    def nack(
        self,
        stream: bytes,
        group: bytes,
        choices: list[Pick | EntryId],
        mode: NackMode,
        consumer: bytes | None,
    ) -> None:
        ids = self.pick_all(stream, choices)
        self.both(
            self.engine.nack(stream, group, ids, mode=mode, consumer=consumer),
            lambda: self.reference.nack(stream, group, ids, mode, consumer),
        )

    @rule(stream=streams, group=groups, choices=pending_lists, consumer=consumers)
    def extend(
        self, stream: bytes, group: bytes, choices: list[Pick | EntryId], consumer: bytes
    ) -> None:
        ids = self.pick_all(stream, choices)
        self.both(
            self.engine.extend(stream, group, ids, consumer=consumer),
            lambda: self.reference.extend(stream, group, ids, consumer, self.clock.now_ms),
        )

    @rule(
        stream=streams,
        group=groups,
        consumer=consumers,
        choices=pending_lists,
        request=st.builds(
            ClaimRequest,
            min_idle_ms=durations,
            idle_ms=st.sampled_from([None, None, 0, 30, -5, 10**6]),
            time_ms=st.sampled_from([None, None, 0, START_MS, 10**6]),
            retry_count=st.sampled_from([None, None, 0, 7]),
            force=st.booleans(),
            just_id=st.booleans(),
            last_id=st.just(MIN_ID),
        ),
        last_id=st.one_of(st.none(), st.none(), picks),
    )
    def claim(
        self,
        stream: bytes,
        group: bytes,
        consumer: bytes,
        choices: list[Pick | EntryId],
        request: ClaimRequest,
        last_id: Pick | EntryId | None,
    ) -> None:
        ids = self.pick_all(stream, choices)
        if last_id is not None:
            request = request._replace(last_id=self.pick(stream, last_id))
        self.both(
            self.engine.claim(stream, group, consumer, ids, request),
            lambda: self.reference.claim(stream, group, consumer, ids, request, self.clock.now_ms),
        )

    @rule(
        stream=streams,
        group=groups,
        consumer=consumers,
        min_idle_ms=durations,
        start=st.one_of(st.just(MIN_ID), picks),
        limit=st.sampled_from([1, 2, 100]),
        just_id=st.booleans(),
    )
    def autoclaim(
        self,
        stream: bytes,
        group: bytes,
        consumer: bytes,
        min_idle_ms: int,
        start: Pick | EntryId,
        limit: int,
        just_id: bool,
    ) -> None:
        begin = self.pick(stream, start)
        self.both(
            self.engine.autoclaim(
                stream,
                group,
                consumer,
                min_idle_ms=min_idle_ms,
                start=begin,
                limit=limit,
                just_id=just_id,
            ),
            lambda: self.reference.autoclaim(
                stream,
                group,
                consumer,
                min_idle_ms=min_idle_ms,
                start=begin,
                limit=limit,
                just_id=just_id,
                now_ms=self.clock.now_ms,
            ),
        )

    @rule(
        stream=streams,
        group=groups,
        start=picks,
        end=picks,
        limit=st.sampled_from([0, 1, 2, 100]),
        consumer=st.one_of(st.none(), consumers, st.just(b"")),
        min_idle_ms=durations,
    )
    def pending(
        self,
        stream: bytes,
        group: bytes,
        start: Pick | EntryId,
        end: Pick | EntryId,
        limit: int,
        consumer: bytes | None,
        min_idle_ms: int,
    ) -> None:
        low, high = self.pick(stream, start), self.pick(stream, end)
        request = PendingRequest(low, high, limit, consumer, min_idle_ms)
        self.both(
            self.engine.pending(stream, group, request),
            lambda: self.reference.pending(stream, group, request, self.clock.now_ms),
        )

    @rule(stream=streams, group=groups)
    def describe(self, stream: bytes, group: bytes) -> None:
        engine, reference, now_ms = self.engine, self.reference, self.clock.now_ms
        self.both(engine.length(stream), lambda: reference.length(stream))
        self.both(engine.stream_info(stream), lambda: reference.stream_info(stream))
        self.both(
            engine.stream_detail(stream, count=2),
            lambda: reference.stream_detail(stream, 2, now_ms),
        )
        self.both(engine.groups(stream), lambda: reference.groups(stream))
        self.both(engine.group(stream, group), lambda: reference.group(stream, group))
        self.both(
            engine.consumers(stream, group), lambda: reference.consumers(stream, group, now_ms)
        )
        self.both(
            engine.pending_summary(stream, group), lambda: reference.pending_summary(stream, group)
        )

    @rule(
        prefix=st.sampled_from([b"", b"s", b"x"]),
        after=st.sampled_from([None, b"", b"a", b"s", b"t"]),
        limit=st.integers(1, 2),
    )
    def list_streams(self, prefix: bytes, after: bytes | None, limit: int) -> None:
        self.both(
            self.engine.list_streams(prefix=prefix, after=after, limit=limit),
            lambda: self.reference.list_streams(prefix, after, limit),
        )

    # What holds at any time

    @invariant()
    def everything_that_can_be_asked_has_the_same_answer(self) -> None:
        assert list(self.engine.keyspace.streams) == sorted(self.reference.streams)
        for name in sorted(self.reference.streams):
            self.both(
                self.engine.stream_detail(name, count=None),
                partial(self.reference.stream_detail, name, None, self.clock.now_ms),
            )

    @invariant()
    def ids_ascend_and_none_is_above_the_last_one(self) -> None:
        for stream in self.engine.keyspace.streams.values():
            ids = [entry.id for entry in stream.log.range(MIN_ID, MAX_ID)]
            assert ids == sorted(set(ids))
            assert not ids or ids[-1] <= stream.last_id

    @invariant()
    def a_group_holds_what_its_consumers_hold_and_what_nobody_owns(self) -> None:
        for stream in self.engine.keyspace.streams.values():
            for group in stream.groups.values():
                for consumer in group.consumers.values():
                    assert list(consumer.pending.walk()) == held_by(group, consumer.name)
                owners = {one.owner.name for one in group.pel.by_id.walk() if one.owner is not None}
                assert owners <= set(group.consumers)

    @invariant()
    def the_longest_idle_is_found_first(self) -> None:
        for name, stream in self.reference.streams.items():
            for group_name, group in stream.groups.items():
                pel = self.engine.keyspace.group(name, group_name).pel
                found = [one.id for one in pel.longest_idle_first() if stream.get(one.id)]
                assert found == [one.id for one in group.longest_idle_first() if stream.get(one.id)]

    @invariant()
    def nobody_is_left_waiting(self) -> None:
        assert self.engine.waiter_count == 0

    def teardown(self) -> None:
        """Replay what was recorded: the same state comes out."""
        self.loop.close()
        replayed = Keyspace()
        replayed.defaults = Defaults(node_limits=LIMITS)
        for record in self.storage.records:
            for command in commands.decode(record):
                replayed.apply(command)
        assert snapshot(replayed) == snapshot(self.engine.keyspace)


def answer_of(call: Callable[[], Any]) -> Answer:
    """Return a reply, or an error with its type, its text and its facts."""
    try:
        return "reply", call()
    except StreamError as error:
        return "error", (type(error), str(error), vars(error))


EngineMachine.TestCase.settings = settings(
    max_examples=250, stateful_step_count=50, deadline=None, print_blob=True
)
TestEngineAgainstReference = EngineMachine.TestCase
