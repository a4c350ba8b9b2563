"""A machine that runs each command on the engine and on the reference, and compares the answers.

Its subclasses have the rules: which commands there are, and with which arguments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine import commands
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.errors import StreamError
from headgate.engine.journal.blocks import Kind, read_blocks, read_header
from headgate.engine.journal.snapshot import load, pieces
from headgate.engine.limits import U64_MAX
from headgate.engine.replies import Created, GroupInfo, StreamDetail, StreamInfo
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import LastCommit
from headgate.engine.requests.entries import References
from headgate.engine.requests.keyspace import TellTime
from headgate.engine.requests.streams import DescribeStream, DetailStream, ListStreams
from headgate.engine.state.defaults import Defaults
from headgate.engine.state.entries.node_limits import NodeLimits
from headgate.engine.state.keyspace import Keyspace
from tests.model.freezer import Freezer
from tests.model.reference import Reference
from tests.model.reference_stream import RefStream
from tests.model.snapshot import held_by, snapshot, unsized
from tests.virtual_time import ManualClock, VirtualLoop

DEFAULTS = Defaults(NodeLimits(entries_max=3, size_bytes_max=0), 60, 2)
START_MS = 1_000


class Pick(NamedTuple):
    """An id chosen when the history is known: one the stream has given out, or a neighbour."""

    back: int  # counted from the newest
    shift: int  # -1: the id below, 1: the id above
    is_pending: bool = False  # only what is pending in one of the stream's groups


streams = st.sampled_from([*[b"s"] * 7, b"t"])
groups = st.sampled_from([b"g", b"g", b"g", b"h"])
consumers = st.sampled_from([b"a", b"b"])
maybe_consumers = st.one_of(st.none(), consumers)
durations = st.sampled_from([0, 0, 1, 10, 50])
counts = st.one_of(st.none(), st.integers(1, 4))
sizes = st.sampled_from([None, None, None, 0, 3, 5])
references = st.sampled_from([References.KEEP, *References])
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
Answer = tuple[str, Any]


class Command(NamedTuple):
    """A request to the engine, and what the reference does instead."""

    request: Request[Any]
    expect: Callable[[], Any]


class Machine(RuleBasedStateMachine):
    """Runs each command on both and compares the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.clock = ManualClock(START_MS)
        self.storage = Freezer()
        self.engine = Engine(self.storage, clock=self.clock, has_bucket=True)
        self.engine.keyspace.defaults = DEFAULTS
        self.reference = Reference(DEFAULTS)
        self.given_out: dict[bytes, list[EntryId]] = {}

    def both(self, ask: Awaitable[Any], expect: Callable[[], Any]) -> Answer:
        """Assert that engine and reference answer alike; returns the answer."""

        async def asked() -> Any:
            return await ask

        answer = answer_of(lambda: self.loop.run_until_complete(asked()))
        expected = answer_of(expect)
        for ref_stream in self.reference.streams.values():
            ref_stream.settle_turns()
        assert answer == expected, f"\n  engine:    {answer}\n  reference: {expected}"
        return answer

    async def described(self, stream: bytes) -> StreamInfo:
        """Return the engine's description of a stream, but for its sizes."""
        return unsized(await self.engine.perform(DescribeStream(stream)))

    async def detailed(self, stream: bytes, count: int | None) -> StreamDetail:
        """Return the engine's full description of a stream, but for its sizes."""
        detail = await self.engine.perform(DetailStream(stream, count=count))
        return detail._replace(info=unsized(detail.info))

    @staticmethod
    async def is_new(creating: Awaitable[Created[Any]]) -> bool:
        """Return whether what was to be created is new."""
        return (await creating).is_new

    def pass_time(self, delta_ms: int) -> None:
        self.clock.now_ms += delta_ms
        self.reference.drop_expired(self.clock.now_ms)
        self.loop.run_until_complete(self.engine.perform(ListStreams(limit=1)))  # any request does

    def set_clock(self, by_ms: int) -> None:
        """Set the wall clock without time passing; the engine sees it with its next command."""
        self.clock.step(by_ms)
        self.reference.set_clock(by_ms)
        self.reference.drop_expired(self.clock.now_ms)
        self.perform(Command(TellTime(), lambda: self.clock.now_ms))

    def perform(self, command: Command) -> Answer:
        """Run one command."""
        return self.both(self.engine.perform(command.request), command.expect)

    def perform_all(self, chosen: Sequence[Command]) -> list[Answer]:
        """Run commands at one moment: each sees what those before it have done."""

        async def asked() -> list[Answer]:
            replies = await self.engine.perform_all([item.request for item in chosen])
            return [answer_with(reply) for reply in replies]

        _, answers = self.both(asked(), lambda: [answer_of(item.expect) for item in chosen])
        return list(answers)

    def run_words(self, words: Sequence[object], expect: Callable[[], Any]) -> None:
        """Run a command that is written in words."""
        written = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.both(CommandRunner(EmbeddedBackend(self.engine)).run(written), expect)

    def pick(self, stream: bytes, choice: Pick | EntryId) -> EntryId:
        if isinstance(choice, EntryId):
            return choice
        known = self.pending_ids(stream) if choice.is_pending else self.given_out.get(stream, [])
        chosen = known[-1 - choice.back % len(known)] if known else EntryId(choice.back, 1)
        return {-1: chosen.previous(), 0: chosen, 1: chosen.next()}[choice.shift]

    def pending_ids(self, stream: bytes) -> list[EntryId]:
        known_stream = self.reference.streams.get(stream)
        groups = [] if known_stream is None else known_stream.groups.values()
        return [entry.id for group in groups for entry in group.pel]

    def pick_all(self, stream: bytes, choices: list[Pick | EntryId]) -> list[EntryId]:
        return [self.pick(stream, choice) for choice in choices]

    # What holds at any time

    @invariant()
    def everything_that_can_be_asked_has_the_same_answer(self) -> None:
        assert list(self.engine.keyspace.streams) == sorted(self.reference.streams)
        assert self.engine.keyspace.defaults == self.reference.defaults
        for name in sorted(self.reference.streams):
            self.both(
                self.detailed(name, None),
                partial(self.reference.stream_detail, name, None, self.clock.now_ms),
            )

    @invariant()
    def the_same_idempotency_keys_are_remembered(self) -> None:
        for name, stream in self.reference.streams.items():
            keys = self.engine.keyspace.stream(name).keys
            remembered = {
                producer: [
                    (key, *made[:-1], self.engine.keyspace.wall_ms(made.at_ms))
                    for key, made in of_producer.items()
                ]
                for producer, of_producer in keys.by_producer.items()
            }
            assert remembered == keys_by_producer(stream)
            counters = keys.added, keys.duplicates, len(keys)
            assert counters == (stream.keys_added, stream.keys_repeated, len(stream.keys))

    @invariant()
    def the_same_batches_are_committed(self) -> None:
        for writer in self.engine.keyspace.writers.by_name.keys() | self.reference.commits.keys():
            self.both(
                self.engine.perform(LastCommit(writer)), partial(self.reference.commits.get, writer)
            )

    @invariant()
    def what_will_go_by_time_is_watched(self) -> None:
        keyspace, streams = self.engine.keyspace, self.reference.streams.items()
        assert keyspace.keyed == {name for name, stream in streams if stream.keys}
        assert keyspace.retaining == {name for name, stream in streams if stream.config.retains}
        by_policy = {
            name
            for name, stream in streams
            for group in stream.groups.values()
            if (group.policy.max_deliveries, group.policy.consumer_ttl_ms) != (None, None)
        }
        by_times = {name for name, stream in streams if stream.times}
        once = {name for name, _ in streams if keyspace.streams[name].deadlines is not None}
        assert by_policy | by_times <= keyspace.governed <= by_policy | once
        leaving = [(stream.expires_at_ms, name) for name, stream in streams]
        assert list(keyspace.expiring) == sorted(
            (at_ms, name) for at_ms, name in leaving if at_ms is not None
        )

    @invariant()
    def every_entry_is_found_by_its_id(self) -> None:
        for name, stream in self.reference.streams.items():
            log = self.engine.keyspace.stream(name).log
            with self.engine.cold.at_once():
                entries = [log.get(slot.id) for slot in stream.slots if slot.alive]
            assert entries == stream.entries
            assert (log.first_id, log.length) == (stream.first_id, len(stream.entries))
            assert log.last_id == max(stream.ids, default=MIN_ID)
            trimmed_through = self.engine.keyspace.stream(name).trimmed_through
            assert trimmed_through == stream.trimmed_max

    @invariant()
    def what_is_archived_is_read_with_what_is_alive(self) -> None:
        for name, stream in self.reference.streams.items():
            known = self.engine.keyspace.stream(name)
            with self.engine.cold.at_once():
                entries = known.everything.range(MIN_ID, MAX_ID)
            assert entries == stream.everything
            archive = known.archive
            assert known.gone_through == stream.gone_max
            if archive is not None and archive.length:
                with self.engine.cold.at_once():
                    assert archive.last_id == max(stream.archive)

    @invariant()
    def ids_ascend_and_none_is_above_the_last_one(self) -> None:
        for stream in self.engine.keyspace.streams.values():
            with self.engine.cold.at_once():
                ids = [entry.id for entry in stream.log.range(MIN_ID, MAX_ID)]
            assert ids == sorted(set(ids))
            assert not ids or ids[-1] <= stream.last_id

    @invariant()
    def a_group_holds_what_its_consumers_hold_and_what_nobody_owns(self) -> None:
        for stream in self.engine.keyspace.streams.values():
            for group in stream.groups.values():
                for consumer in group.consumers.values():
                    assert list(consumer.pending.walk()) == held_by(group, consumer.name)
                owners = {entry.owner.name for entry in group.pel.walk() if entry.owner is not None}
                assert owners <= set(group.consumers)

    @invariant()
    def the_longest_idle_is_found_first(self) -> None:
        for name, stream in self.reference.streams.items():
            for group_name, group in stream.groups.items():
                pel = self.engine.keyspace.group(name, group_name).pel
                now_ms = self.clock.now_ms
                steady_ms = self.engine.keyspace.steady_ms(now_ms)
                ids_in_order = [
                    entry.id for entry in pel.longest_idle_first(steady_ms) if stream.get(entry.id)
                ]
                assert ids_in_order == [
                    entry.id for entry in group.longest_idle_first(now_ms) if stream.get(entry.id)
                ]

    @invariant()
    def nobody_is_left_waiting(self) -> None:
        assert self.engine.waiter_count == 0

    def teardown(self) -> None:
        """Replay the records, and write the state down: the same comes out both ways."""
        self.loop.close()
        replayed = Keyspace()
        replayed.defaults = DEFAULTS
        for record in self.storage.records:
            for command in commands.decode(record):
                replayed.apply(command)
        self.engine.keyspace.memory.extents = self.storage
        assert snapshot(replayed) == snapshot(self.engine.keyspace)
        assert snapshot(written_and_loaded(replayed)) == snapshot(replayed)


def written_and_loaded(keyspace: Keyspace) -> Keyspace:
    """Return the keyspace loaded from the file of another one."""
    file = BytesIO(b"".join(pieces(keyspace, position=1)))
    header = read_header(file, "file", Kind.SNAPSHOT)
    assert header.position == 1
    return load(read_blocks(file, "file", header), "file")


def answer_of(call: Callable[[], Any]) -> Answer:
    """Return a reply, or an error with its type, its text and its facts."""
    try:
        return answer_with(call())
    except StreamError as error:
        return answer_with(error)


def answer_with(reply: Any) -> Answer:
    if isinstance(reply, StreamError):
        return "error", (type(reply), str(reply), vars(reply))
    return "reply", without_rests(reply)


def without_rests(reply: Any) -> Any:
    """Return a reply without the counts of delayed entries: they are not exact."""
    match reply:
        case GroupInfo():
            return reply._replace(delayed_count=0)
        case list():
            return list(map(without_rests, reply))
        case StreamDetail(info, entries, groups):
            details = [each._replace(info=without_rests(each.info)) for each in groups]
            return StreamDetail(info, entries, details)
    return reply


def keys_by_producer(
    stream: RefStream,
) -> dict[bytes, list[tuple[bytes, EntryId, int, bytes, int]]]:
    return {
        producer: [
            (key.key, key.ids[0], len(key.ids), key.digest, key.at_ms)
            for key in stream.keys
            if key.producer == producer
        ]
        for producer in {key.producer for key in stream.keys}
    }
