"""Rules about groups, consumers and deliveries."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec import UNSET, UnsetType

from headgate.engine.decisions import deliveries
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.replies import RedriveOutcome
from headgate.engine.requests import (
    ClaimRequest,
    GroupCursor,
    GroupRequest,
    GroupStart,
    NackMode,
    NackRequest,
    PendingRequest,
    PolicyPatch,
    References,
    UpdateGroup,
)
from headgate.engine.state.policy import NO_POLICY, GroupPolicy
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
nacks = st.builds(
    NackRequest,
    mode=st.sampled_from(NackMode),
    retry_count=st.sampled_from([None, None, None, 0, 7]),
    force=st.booleans(),
    delay_ms=delays,
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
    ),
    st.builds(
        GroupPolicy,
        claim_idle_ms=st.sampled_from([None, 10]),
        max_deliveries=st.sampled_from([None, None, 1]),
        backoff_ms=st.sampled_from([(), (10,), (0, 50)]),
        max_pending=st.sampled_from([None, 2]),
        consumer_ttl_ms=st.sampled_from([None, 100]),
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
                self.engine.create_group(stream, group, begin, create_stream=create, policy=policy)
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
        patch = PolicyPatch(**{name: getattr(policy, name) for name in changed})
        request = UpdateGroup(stream, group, last_id, entries_read, patch)
        self.both(self.engine.update_group(request), lambda: self.reference.update_group(request))

    @rule(
        stream=streams,
        group=groups,
        choices=st.one_of(st.none(), pick_lists),
        limit=st.sampled_from([1, 2, 100]),
    )
    def redrive(
        self, stream: bytes, group: bytes, choices: list[Pick | EntryId] | None, limit: int
    ) -> None:
        found = self.reference.streams.get(stream)
        known = None if found is None else found.groups.get(group)
        letters = None if known is None else known.policy.dead_letter_stream
        if letters in self.reference.streams:
            self.given_out[letters] = list(self.reference.streams[letters].ids)
        ids = None if choices is None else self.pick_all(letters or b"t", choices)
        kind, reply = self.both(
            self.engine.redrive(stream, group, ids, limit=limit),
            lambda: self.reference.redrive(stream, group, ids, limit, self.clock.now_ms),
        )
        if kind == "reply":
            appended = [one.entry_id for one in reply if one.outcome is RedriveOutcome.APPENDED]
            self.given_out.setdefault(stream, []).extend(appended)

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
            self.is_new(self.engine.create_consumer(stream, group, consumer)),
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
            st.tuples(streams, st.one_of(st.none(), st.none(), picks)), min_size=1, max_size=2
        ),
        request=st.builds(
            GroupRequest,
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
        request: GroupRequest,
        acked: list[Pick | EntryId],
        wait_ms: int,
    ) -> None:
        cursors = [
            GroupCursor(name, None if after is None else self.pick(name, after))
            for name, after in places
        ]
        asked, done = request._replace(cursors=cursors), self.pick_all(places[0][0], acked)
        self.both(
            self.engine.read_group(asked, wait_ms=wait_ms, acked=done),
            lambda: self.reference.read_group(asked, done, self.clock.now_ms),
        )

    @rule(group=groups, consumer=consumers, limit=counts, claim_idle_ms=durations)
    def read_group_plainly(
        self, group: bytes, consumer: bytes, limit: int | None, claim_idle_ms: int
    ) -> None:
        request = GroupRequest(group, consumer, [], limit, claim_idle_ms)
        self.read_group([(b"s", None)], request._replace(claim_idle_ms=None), [], 0)
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
            self.engine.ack(stream, group, ids, consumer=consumer),
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
                lambda keyspace, _: deliveries.ack_and_delete(keyspace, stream, group, ids, spared),
                lambda: self.reference.ack_and_delete(stream, group, ids, spared),
            )
        )

    @rule(
        stream=streams,
        group=groups,
        choices=pending_lists,
        mode=st.sampled_from(NackMode),
        delay_ms=delays,
        consumer=maybe_consumers,
    )
    def nack(
        self,
        stream: bytes,
        group: bytes,
        choices: list[Pick | EntryId],
        mode: NackMode,
        delay_ms: int | None,
        consumer: bytes | None,
    ) -> None:
        ids = self.pick_all(stream, choices)
        self.both(
            self.engine.nack(stream, group, ids, mode=mode, delay_ms=delay_ms, consumer=consumer),
            lambda: self.reference.nack_and_bury(
                stream,
                group,
                ids,
                NackRequest(mode, delay_ms=delay_ms),
                consumer,
                self.clock.now_ms,
            ),
        )

    @rule(
        stream=streams,
        group=groups,
        choices=st.one_of(pick_lists, pending_lists),
        request=nacks,
        consumer=maybe_consumers,
    )
    def nack_with_options(
        self,
        stream: bytes,
        group: bytes,
        choices: list[Pick | EntryId],
        request: NackRequest,
        consumer: bytes | None,
    ) -> None:
        ids = self.pick_all(stream, choices)
        self.perform(
            Command(
                lambda keyspace, now_ms: deliveries.nack(
                    keyspace, stream, group, ids, request, consumer, now_ms
                ),
                lambda: self.reference.nack(
                    stream, group, ids, request, consumer, self.clock.now_ms
                ),
            )
        )

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
            self.engine.give_back(stream, group, consumer, counts),
            lambda: self.reference.give_back(stream, group, consumer, counts),
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
        self.both(length_of(engine, stream), lambda: reference.length(stream))
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
            engine.consumer(stream, group, b"a"),
            lambda: reference.consumer(stream, group, b"a", now_ms),
        )
        self.both(
            engine.pending_summary(stream, group), lambda: reference.pending_summary(stream, group)
        )
