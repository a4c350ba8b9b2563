"""The engine and the obvious implementation, side by side through any history.

After every command both must have answered the same, and everything that can be asked about a
stream must have the same answer. After every history its records must lead to the same state again.
HEADGATE_TEST_HISTORIES says how many there are (by hand: 5000).
"""

from __future__ import annotations

import os
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from msgspec import UNSET

from headgate.engine.config import NO_POLICY, GroupPolicy, StreamConfig
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.limits import CLOCK_STEP_MS_MIN
from headgate.engine.requests.deliveries import Ack, GroupCursor, Nack, NackMode, ReadGroup
from headgate.engine.requests.entries import Add, Delete, References, Trim, TrimTo
from headgate.engine.requests.streams import DeleteStream
from tests.model.group_rules import GroupRules, policies
from tests.model.machine import Command, Pick, groups, pending_lists, pick_lists, streams
from tests.model.stream_rules import StreamRules

HISTORIES = int(os.environ.get("HEADGATE_TEST_HISTORIES", "60"))


class Part(NamedTuple):
    """One command of a transaction."""

    name: str
    stream: bytes
    group: bytes
    choices: list[Pick | EntryId]


parts = st.builds(
    Part,
    st.sampled_from(["add", "add", "read", "read", "ack", "nack", "delete", "trim", "drop"]),
    streams,
    groups,
    pending_lists,
)


class EngineMachine(StreamRules, GroupRules):
    """All commands: one by one, and many at one moment."""

    @initialize(
        count=st.integers(0, 10),
        read=st.integers(0, 6),
        later=st.integers(0, 60),
        policy=st.one_of(st.just(NO_POLICY), policies),
        archive=st.booleans(),
    )
    def begin(
        self, count: int, read: int, later: int, policy: GroupPolicy, archive: bool = False
    ) -> None:
        """Start with something there, so that short histories reach far."""
        if archive:
            self.create_stream(b"s", StreamConfig(archive=True))
        self.add(b"s", [Draft(None, (b"f", b"v"))] * count, True, None, None)
        self.create_group(b"s", b"g", MIN_ID, None, False, policy)
        self.create_group(b"s", b"h", None, None, False, NO_POLICY)
        if read:
            self.read_group([(b"s", None)], ReadGroup(b"g", b"a", [], limit=read), [], 0)
        self.clock.now_ms += later

    @rule(chunks_max=st.integers(1, 3), cached_bytes_max=st.sampled_from([0, 0, 10**6]))
    def freeze(self, chunks_max: int, cached_bytes_max: int) -> None:
        """Sealed chunks leave memory, and no answer shows it."""
        self.storage.freeze(self.engine.keyspace, chunks_max)
        cold = self.engine.cold
        cold._cached_bytes_max = cached_bytes_max
        cold._cached.clear()

    @rule(stream=streams, count=st.integers(1, 3))
    def let_ids_come_again(self, stream: bytes, count: int) -> None:
        """XSETID can lower the last id to the last live entry: what was above it is free again."""
        known_stream = self.reference.streams.get(stream)
        if known_stream is None or not known_stream.ids:
            return
        again = known_stream.ids[-count:]
        self.delete(stream, [*again], References.KEEP)
        self.read_group_plainly(b"g", b"b", None, 0)  # comes by what is pending and gone
        top = known_stream.ids[-1] if known_stream.ids else EntryId(0, 1)
        self.set_stream(stream, known_stream.last_id, None, top)
        self.set_stream(stream, top, None, MIN_ID)
        for entry_id in again:
            self.add(stream, [Draft(entry_id, (b"f", b"again"))], True, None, None)

    @rule(by_ms=st.sampled_from([1_000, 5_000, 60_000, -1_000, -4_000, -60_000]))
    def somebody_sets_the_clock(self, by_ms: int) -> None:
        by_ms = max(by_ms, -self.reference.clock_set_ms)  # no time is negative
        if abs(by_ms) >= CLOCK_STEP_MS_MIN:
            self.set_clock(by_ms)

    @rule(
        choices=pick_lists,
        excess=st.integers(1, 3),
        approximate=st.booleans(),
        limit=st.sampled_from([None, 1, 4]),
    )
    def trim_settled(
        self, choices: list[Pick | EntryId], excess: int, approximate: bool, limit: int | None
    ) -> None:
        """Let both groups be at the end, so that only what is pending is still needed."""
        self.read_group_plainly(b"g", b"a", None, 0)
        self.update_group(b"s", b"h", None, UNSET, NO_POLICY, set())
        self.ack(b"s", b"g", choices, None)
        max_length = max(self.reference.length(b"s") - excess, 0)
        limit = limit if approximate else None
        request = TrimTo(max_length, None, approximate, limit, References.ACKED)
        self.trim(b"s", request)

    @rule(chosen=st.lists(parts, min_size=1, max_size=4))
    def transaction(self, chosen: list[Part]) -> None:
        answers = self.perform_all([self.command_of(part) for part in chosen])
        for part, (kind, reply) in zip(chosen, answers, strict=True):
            if part.name == "add" and kind == "reply":
                self.given_out.setdefault(part.stream, []).extend(reply.ids)

    def command_of(self, part: Part) -> Command:
        """Return a command whose ids are chosen before the transaction begins."""
        name, stream, group, choices = part
        ids, now_ms, reference = self.pick_all(stream, choices), self.clock.now_ms, self.reference
        batch = [Draft(None, (b"f", b"v"))]
        request = ReadGroup(group, b"a", [GroupCursor(stream)], limit=2)
        nack = Nack(stream, group, ids, NackMode.FAIL, by_policy=False)
        trim, drop = TrimTo(max_length=3), References.DELETE
        commands = {
            "add": Command(
                Add(stream, batch),
                lambda: reference.add_once(
                    stream,
                    batch,
                    None,
                    create_stream=True,
                    expected_last_id=None,
                    trim=None,
                    now_ms=now_ms,
                ),
            ),
            "read": Command(
                request,
                lambda: reference.read_group_once(request, now_ms),
            ),
            "ack": Command(
                Ack(stream, group, ids),
                lambda: reference.ack(stream, group, ids, None),
            ),
            "nack": Command(
                nack,
                lambda: reference.nack(nack, now_ms),
            ),
            "delete": Command(
                Delete(stream, ids, drop),
                lambda: reference.delete(stream, ids, drop),
            ),
            "trim": Command(
                Trim(stream, trim),
                lambda: reference.trim(stream, trim),
            ),
            "drop": Command(
                DeleteStream(stream),
                lambda: reference.delete_stream(stream),
            ),
        }
        return commands[name]


EngineMachine.TestCase.settings = settings(
    max_examples=HISTORIES, stateful_step_count=50, deadline=None, print_blob=True
)
TestEngineAgainstReference = EngineMachine.TestCase


def test_a_stream_that_is_renamed_is_not_its_own_dead_letter_stream() -> None:
    machine = EngineMachine()
    machine.begin(1, 0, 0, GroupPolicy(max_deliveries=1, dead_letter_stream=b"t"))
    machine.rename(b"s", b"t")
    nack = Nack(b"t", b"g", [], NackMode.SILENT, retry_count=7, force=True)
    machine.nack_with_options(choices=[Pick(0, 0, is_pending=False)], request=nack)
    machine.run_housekeeping()
    machine.redrive(b"t", b"g", None, 1)
    machine.everything_that_can_be_asked_has_the_same_answer()
    machine.teardown()
