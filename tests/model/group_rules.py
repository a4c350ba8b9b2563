"""Rules about groups, consumers and deliveries."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from headgate.engine.config import NO_POLICY, FieldName, GroupPolicy, Patch
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.replies import RedriveOutcome
from headgate.engine.requests.deliveries import (
    Ack,
    AckAndDelete,
    Autoclaim,
    Claim,
    Extend,
    GiveBack,
    GroupCursor,
    ListPending,
    Nack,
    NackMode,
    ReadGroup,
    Redrive,
    SumPending,
)
from headgate.engine.requests.entries import References
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DescribeConsumer,
    DescribeGroup,
    DestroyGroup,
    GroupStart,
    ListConsumers,
    ListGroups,
    UpdateGroup,
)
from tests.lengths import length_of
from tests.model.machine import (
    START_MS,
    Command,
    Machine,
    Pick,
    consumers,
    counts,
    durations,
    groups,
    maybe_consumers,
    pending_lists,
    pick_lists,
    picks,
    references,
    sizes,
    streams,
)

delays = st.sampled_from([None, None, 0, 5, 30])
errors = st.sampled_from([None, None, b"timeout", b"refused"])
nacks = st.builds(
    Nack,
    streams,
    groups,
    ids=st.just(()),
    mode=st.sampled_from(NackMode),
    delay_ms=delays,
    error=errors,
    consumer=maybe_consumers,
)
nacks_with_options = st.builds(
    Nack,
    streams,
    groups,
    ids=st.just(()),
    mode=st.sampled_from(NackMode),
    delay_ms=delays,
    error=errors,
    consumer=maybe_consumers,
    retry_count=st.sampled_from([None, None, None, 0, 7]),
    force=st.booleans(),
    by_policy=st.just(False),
)
policies = st.one_of(
    st.just(NO_POLICY),
    st.builds(
        GroupPolicy,
        claim_idle_ms=st.sampled_from([None, 0, 10, 50]),
        max_deliveries=st.sampled_from([1, 2, 3]),
        dead_letter_stream=st.sampled_from([b"t", b"t", b"u", b"s"]),
        backoff_ms=st.sampled_from([(), (10,), (1, 50)]),
        max_pending=st.sampled_from([None, None, 2]),
        consumer_ttl_ms=st.sampled_from([None, 100]),
        on_expiry=st.booleans(),
    ),
    st.builds(
        GroupPolicy,
        claim_idle_ms=st.sampled_from([None, 10]),
        max_deliveries=st.sampled_from([None, None, 1]),
        backoff_ms=st.sampled_from([(), (10,), (0, 50)]),
        max_pending=st.sampled_from([None, 2]),
        consumer_ttl_ms=st.sampled_from([None, 100]),
    ),
    st.builds(
        GroupPolicy,
        claim_idle_ms=st.sampled_from([None, 10]),
        max_pending=st.sampled_from([None, None, 2]),
        filters=st.sampled_from([None, '{"range":{"f":{"ge":5}}}', '{"not":{"present":"f"}}']),
        paused_until_ms=st.sampled_from([None, None, START_MS + 20, START_MS + 60]),
        rate_per_s=st.sampled_from([None, None, 100, 20]),
        rate_burst=st.sampled_from([None, 1, 2]),
    ),
    st.builds(
        GroupPolicy,
        claim_idle_ms=st.sampled_from([None, 10]),
        max_pending=st.sampled_from([None, None, 2]),
        filters=st.sampled_from([None, None, '{"range":{"f":{"ge":5}}}']),
        key_field=st.sampled_from([FieldName(b"f"), FieldName(b"f"), FieldName(b"a")]),
        key_pending_max=st.sampled_from([None, None, 2]),
        key_ahead_max=st.sampled_from([None, None, 1, 3]),
    ),
)


class GroupRules(Machine):
    """Commands on groups."""

    @rule(
        stream=streams,
        group=groups,
        start=st.one_of(st.none(), picks, st.just(MIN_ID)),
        entries_read=st.one_of(st.none(), st.integers(0, 9)),
        create=st.booleans(),
        policy=st.one_of(st.none(), policies),
    )
    def create_group(
        self,
        stream: bytes,
        group: bytes,
        start: Pick | EntryId | None,
        entries_read: int | None,
        create: bool,
        policy: GroupPolicy | None,
    ) -> None:
        begin = GroupStart(None if start is None else self.pick(stream, start), entries_read)
        self.both(
            self.is_new(
                self.engine.perform(
                    CreateGroup(stream, group, begin, create_stream=create, policy=policy)
                )
            ),
            lambda: self.reference.create_group(
                stream,
                group,
                begin,
                create_stream=create,
                policy=policy,
                now_ms=self.clock.now_ms,
            ),
        )

    @rule(
        stream=streams,
        group=groups,
        start=st.one_of(st.just(UNSET), st.none(), picks),
        entries_read=st.one_of(st.just(UNSET), st.just(UNSET), st.integers(0, 9)),
        policy=policies,
        changed=st.sets(st.sampled_from(GroupPolicy.__struct_fields__)),
    )
    def update_group(
        self,
        stream: bytes,
        group: bytes,
        start: Pick | EntryId | UnsetType | None,
        entries_read: int | UnsetType,
        policy: GroupPolicy,
        changed: set[str],
    ) -> None:
        last_id = start if start is UNSET or start is None else self.pick(stream, start)
        patch = Patch.of(GroupPolicy, **{name: getattr(policy, name) for name in changed})
        request = UpdateGroup(stream, group, last_id, entries_read, patch)
        self.both(self.engine.perform(request), lambda: self.reference.update_group(request))

    @rule(
        stream=streams,
        group=groups,
        choices=st.one_of(st.none(), pick_lists),
        limit=st.sampled_from([1, 2, 100]),
    )
    def redrive(
        self, stream: bytes, group: bytes, choices: list[Pick | EntryId] | None, limit: int
    ) -> None:
        known_stream = self.reference.streams.get(stream)
        known = None if known_stream is None else known_stream.groups.get(group)
        dead_letters = None if known is None else known.policy.dead_letter_stream
        if dead_letters in self.reference.streams:
            self.given_out[dead_letters] = list(self.reference.streams[dead_letters].ids)
        ids = None if choices is None else self.pick_all(dead_letters or b"t", choices)
        kind, reply = self.both(
            self.engine.perform(Redrive(stream, group, ids, limit=limit)),
            lambda: self.reference.redrive(stream, group, ids, limit, self.clock.now_ms),
        )
        if kind == "reply":
            appended = [
                outcome.entry_id for outcome in reply if outcome.outcome is RedriveOutcome.APPENDED
            ]
            self.given_out.setdefault(stream, []).extend(appended)

    @rule(stream=streams, group=groups, really=st.integers(0, 9))
    def destroy_group(self, stream: bytes, group: bytes, really: int) -> None:
        if really == 0:
            self.both(
                self.engine.perform(DestroyGroup(stream, group)),
                lambda: self.reference.destroy_group(stream, group),
            )

    @rule(stream=streams, group=groups, consumer=consumers)
    def create_consumer(self, stream: bytes, group: bytes, consumer: bytes) -> None:
        self.both(
            self.is_new(self.engine.perform(CreateConsumer(stream, group, consumer))),
            lambda: self.reference.create_consumer(stream, group, consumer, self.clock.now_ms),
        )

    @rule(stream=streams, group=groups, consumer=consumers, release=st.booleans())
    def delete_consumer(self, stream: bytes, group: bytes, consumer: bytes, release: bool) -> None:
        self.both(
            self.engine.perform(DeleteConsumer(stream, group, consumer, release=release)),
            lambda: self.reference.delete_consumer(stream, group, consumer, release=release),
        )

    # Delivery

    @rule(
        places=st.lists(
            st.tuples(streams, st.one_of(st.none(), st.none(), picks)), min_size=1, max_size=2
        ),
        request=st.builds(
            ReadGroup,
            groups,
            consumers,
            cursors=st.just(()),
            limit=counts,
            claim_idle_ms=st.one_of(st.none(), durations),
            claim_released=st.booleans(),
            no_ack=st.sampled_from([False, False, True]),
            max_pending=st.one_of(st.none(), st.none(), st.integers(1, 4)),
            size_bytes_max=sizes,
            claim_own=st.sampled_from([True, True, False]),
        ),
        acked=st.one_of(st.just([]), st.just([]), pending_lists),
        wait_ms=st.sampled_from([0, 0, 5]),
    )
    def read_group(
        self,
        places: list[tuple[bytes, Pick | EntryId | None]],
        request: ReadGroup,
        acked: list[Pick | EntryId],
        wait_ms: int,
    ) -> None:
        cursors = [
            GroupCursor(name, None if after is None else self.pick(name, after))
            for name, after in places
        ]
        asked, done = replace(request, cursors=cursors), self.pick_all(places[0][0], acked)
        self.both(
            self.engine.perform(replace(asked, wait_ms=wait_ms, acked=done)),
            lambda: self.reference.read_group(asked, done, self.clock.now_ms),
        )

    @rule(group=groups, consumer=consumers, limit=counts, claim_idle_ms=durations)
    def read_group_plainly(
        self, group: bytes, consumer: bytes, limit: int | None, claim_idle_ms: int
    ) -> None:
        request = ReadGroup(group, consumer, [], limit, claim_idle_ms)
        self.read_group([(b"s", None)], replace(request, claim_idle_ms=None), [], 0)
        self.read_group([(b"s", None)], request, [], 0)

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
            self.engine.perform(Ack(stream, group, ids, consumer=consumer)),
            lambda: self.reference.ack(stream, group, ids, consumer),
        )

    @rule(stream=streams, group=groups, choices=pending_lists, spared=references)
    def ack_and_delete(
        self,
        stream: bytes,
        group: bytes,
        choices: list[Pick | EntryId],
        spared: References,
    ) -> None:
        ids = self.pick_all(stream, choices)
        self.perform(
            Command(
                AckAndDelete(stream, group, ids, spared),
                lambda: self.reference.ack_and_delete(stream, group, ids, spared),
            )
        )

    @rule(request=nacks, choices=pending_lists, count=st.none() | st.integers(1, 2))
    def nack(self, request: Nack, choices: list[Pick | EntryId], count: int | None) -> None:
        ids = self.pick_all(request.stream, choices)
        nack = replace(request, ids=ids, counts=count and dict.fromkeys(ids, count))
        self.both(
            self.engine.perform(nack),
            lambda: self.reference.nack_and_dead_letter(nack, self.clock.now_ms),
        )

    @rule(request=nacks_with_options, choices=st.one_of(pick_lists, pending_lists))
    def nack_with_options(self, request: Nack, choices: list[Pick | EntryId]) -> None:
        nack = replace(request, ids=self.pick_all(request.stream, choices))
        self.both(self.engine.perform(nack), lambda: self.reference.nack(nack, self.clock.now_ms))

    @rule(
        stream=streams,
        group=groups,
        consumer=consumers,
        choices=pending_lists,
        count=st.integers(0, 3),
    )
    def give_back(
        self,
        stream: bytes,
        group: bytes,
        consumer: bytes,
        choices: list[Pick | EntryId],
        count: int,
    ) -> None:
        counts = dict.fromkeys(self.pick_all(stream, choices), count)
        self.both(
            self.engine.perform(GiveBack(stream, group, consumer, counts)),
            lambda: self.reference.give_back(stream, group, consumer, counts),
        )

    @rule(stream=streams, group=groups, choices=pending_lists, consumer=consumers)
    def extend(
        self, stream: bytes, group: bytes, choices: list[Pick | EntryId], consumer: bytes
    ) -> None:
        ids = self.pick_all(stream, choices)
        self.both(
            self.engine.perform(Extend(stream, group, ids, consumer=consumer)),
            lambda: self.reference.extend(stream, group, ids, consumer, self.clock.now_ms),
        )

    @rule(
        choices=pending_lists,
        request=st.builds(
            Claim,
            streams,
            groups,
            consumers,
            ids=st.just(()),
            min_idle_ms=durations,
            idle_ms=st.sampled_from([None, None, 0, 30, -5, 10**6]),
            time_ms=st.sampled_from([None, None, 0, START_MS, 10**6]),
            retry_count=st.sampled_from([None, None, 0, 7]),
            force=st.booleans(),
            just_id=st.booleans(),
            last_id=st.just(MIN_ID),
            size_bytes_max=sizes,
        ),
        last_id=st.one_of(st.none(), st.none(), picks),
    )
    def claim(
        self, choices: list[Pick | EntryId], request: Claim, last_id: Pick | EntryId | None
    ) -> None:
        stream = request.stream
        claim = replace(request, ids=self.pick_all(stream, choices))
        if last_id is not None:
            claim = replace(claim, last_id=self.pick(stream, last_id))
        self.both(
            self.engine.perform(claim), lambda: self.reference.claim(claim, self.clock.now_ms)
        )

    @rule(
        stream=streams,
        group=groups,
        consumer=consumers,
        min_idle_ms=durations,
        start=st.one_of(st.just(MIN_ID), picks),
        limit=st.sampled_from([1, 2, 100]),
        just_id=st.booleans(),
        size_bytes_max=sizes,
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
        size_bytes_max: int | None,
    ) -> None:
        begin = self.pick(stream, start)
        self.both(
            self.engine.perform(
                Autoclaim(
                    stream,
                    group,
                    consumer,
                    min_idle_ms=min_idle_ms,
                    start=begin,
                    limit=limit,
                    just_id=just_id,
                    size_bytes_max=size_bytes_max,
                )
            ),
            lambda: self.reference.autoclaim(
                stream,
                group,
                consumer,
                min_idle_ms=min_idle_ms,
                start=begin,
                limit=limit,
                just_id=just_id,
                size_bytes_max=size_bytes_max,
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
        request = ListPending(stream, group, low, high, limit, consumer, min_idle_ms)
        self.both(
            self.engine.perform(request),
            lambda: self.reference.pending(request, self.clock.now_ms),
        )

    @rule(stream=streams, group=groups)
    def describe(self, stream: bytes, group: bytes) -> None:
        engine, reference, now_ms = self.engine, self.reference, self.clock.now_ms
        self.both(length_of(engine, stream), lambda: reference.length(stream))
        self.both(self.described(stream), lambda: reference.stream_info(stream))
        self.both(self.detailed(stream, 2), lambda: reference.stream_detail(stream, 2, now_ms))
        self.both(engine.perform(ListGroups(stream)), lambda: reference.groups(stream))
        self.both(
            engine.perform(DescribeGroup(stream, group)), lambda: reference.group(stream, group)
        )
        self.both(
            engine.perform(ListConsumers(stream, group)),
            lambda: reference.consumers(stream, group, now_ms),
        )
        self.both(
            engine.perform(DescribeConsumer(stream, group, b"a")),
            lambda: reference.consumer(stream, group, b"a", now_ms),
        )
        self.both(
            engine.perform(SumPending(stream, group)),
            lambda: reference.pending_summary(stream, group),
        )
