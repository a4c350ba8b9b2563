"""Transactions: nothing is between their requests, so what they take together is bounded first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headgate.engine.config import Patch, StreamConfig
from headgate.engine.decisions.table import DECISIONS
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId
from headgate.engine.errors import IdsExhausted, TransactionTooLong
from headgate.engine.images import CountersImage, GroupImage, StreamImage
from headgate.engine.limits import ENTRY_FIELDS_MAX
from headgate.engine.replies import Added
from headgate.engine.requests import Request, deliveries
from headgate.engine.requests.entries import (
    Add,
    Delete,
    Range,
    Read,
    References,
    StreamCursor,
    Trim,
    TrimTo,
)
from headgate.engine.requests.groups import (
    CreateGroup,
    DestroyGroup,
    GroupStart,
    ListConsumers,
    ListGroups,
)
from headgate.engine.requests.keyspace import (
    CopyStream,
    DumpStream,
    InspectStream,
    MeasureStream,
    RenameStream,
    RestoreStream,
    SetCounters,
)
from headgate.engine.requests.streams import DescribeStream, UpdateStream
from headgate.engine.transaction_cost import COSTS
from tests.unit.driver import Driver, G, S, entry_id

T = b"t"
GROUPS = 2_000
IDS = [entry_id(number) for number in range(1, 2_001)]


def plain(stream: bytes, number: int) -> Add:
    return Add(stream, [Draft(None, (b"n", b"%d" % number))])


def image(group_count: int) -> StreamImage:
    groups = [GroupImage(b"%d" % at, MIN_ID, 0, [], []) for at in range(group_count)]
    return StreamImage([], CountersImage(MIN_ID, MIN_ID, 0), groups)


async def crowded() -> Driver:
    """Return an engine with a stream of many groups; one of them has all entries pending."""
    engine = Driver()
    await engine.put(*range(1, len(IDS) + 1))
    for at in range(GROUPS):
        await engine.perform(CreateGroup(S, b"%d" % at, GroupStart(MIN_ID)))
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await engine.perform(deliveries.ReadGroup(G, b"c", [deliveries.GroupCursor(S)]))
    return engine


DEAR: Sequence[Sequence[Request[Any]]] = [
    [CopyStream(S, T, replace=True)],
    [CopyStream(S, T, replace=True), CopyStream(T, b"u", replace=True)],
    [RenameStream(S, T), RenameStream(T, S)],
    [RestoreStream(T, image(GROUPS), replace=True)],
    [RestoreStream(T, image(40), replace=True)],
    [DumpStream(S, 2**30)],
    [MeasureStream(S)],
    [InspectStream(S, full=True, count=None, described_max=10_000, size_bytes_max=2**30)],
    [Delete(S, IDS[:20], References.ACKED)],
    [Delete(S, IDS[:20])],
    [deliveries.AckAndDelete(S, G, IDS[:20], References.DELETE)],
    [Trim(S, TrimTo(max_length=0, references=References.ACKED))],
    [Trim(S, TrimTo(min_id=IDS[-1], references=References.DELETE))],
    [Add(S, [Draft(None, (b"a", b"b"))], trim=TrimTo(max_length=1, references=References.ACKED))],
    [SetCounters(S, IDS[-1])],
    [DestroyGroup(S, b"1"), CreateGroup(S, b"1", GroupStart(MIN_ID))],
    [Range(S, limit=100)],
    [Range(S, reverse=True)],
    [Read([StreamCursor(S, MIN_ID)])],
    [deliveries.ReadGroup(G, b"c", [deliveries.GroupCursor(S, MIN_ID)])],
    [deliveries.ReadGroup(b"1", b"c", [deliveries.GroupCursor(S)])],
    [deliveries.Claim(S, G, b"d", IDS[:30], 0)],
    [deliveries.Autoclaim(S, G, b"d", 0, limit=1_000)],
    [deliveries.Nack(S, G, IDS[:30], deliveries.NackMode.SILENT, force=True)],
    [deliveries.ListPending(S, G, limit=1_000)],
    [deliveries.ListPending(S, G, limit=1, min_idle_ms=10**9)],
    [ListGroups(S)],
    [
        UpdateStream(S, Patch.of(StreamConfig, max_length=1)),
        UpdateStream(S, Patch.of(StreamConfig, max_length=2)),
    ],
]
"""Each of them is cheap enough alone, and a thousand times too dear."""


@pytest.mark.parametrize("requests", DEAR, ids=lambda requests: str(requests[0])[:60])
async def test_what_is_dear_is_refused_before_anything_is_done(
    requests: Sequence[Request[Any]],
) -> None:
    engine = await crowded()
    position = engine.storage.position
    many = [plain(b"other", 0), *list(requests) * (1_000 // len(requests))]

    with pytest.raises(TransactionTooLong, match="the transaction would take too long"):
        await engine.perform_all(many)

    assert engine.storage.position == position
    assert engine.keyspace.find(b"other") is None


def test_every_request_that_is_decided_has_a_cost() -> None:
    assert set(COSTS) == set(DECISIONS)


WIDE_ID = entry_id(1_000)
BEFORE_IT = entry_id(999)
WIDEST = Add(S, [Draft(WIDE_ID, (b"", b"") * ENTRY_FIELDS_MAX)])
OF_LOG: Sequence[Request[Any]] = [
    Range(S, BEFORE_IT, limit=2),
    Range(S, limit=2, reverse=True),
    Read([StreamCursor(S, BEFORE_IT)], limit=1),
]
OF_GROUP: Sequence[Request[Any]] = [
    deliveries.Claim(S, G, b"d", [WIDE_ID], 0),
    deliveries.Autoclaim(S, G, b"d", 0, start=WIDE_ID, limit=1),
    deliveries.ReadGroup(G, b"c", [deliveries.GroupCursor(S, BEFORE_IT)], limit=1),
    deliveries.ReadGroup(G, b"d", [deliveries.GroupCursor(S)], limit=3, claim_idle_ms=0),
]


@pytest.mark.parametrize("is_sealed", [False, True], ids=["open", "sealed"])
@pytest.mark.parametrize("read", [*OF_LOG, *OF_GROUP], ids=lambda read: type(read).__name__)
async def test_reads_cost_what_an_entry_has_fields(read: Request[Any], is_sealed: bool) -> None:
    engine = Driver()
    await engine.put(1, 999)
    await engine.perform(WIDEST)
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await engine.perform(deliveries.ReadGroup(G, b"c", [deliveries.GroupCursor(S)]))
    if is_sealed:
        await engine.perform(plain(S, 0))

    with pytest.raises(TransactionTooLong):
        await engine.perform_all([read] * 300)


async def test_entries_beside_each_other_are_cheap_to_hand_out_together() -> None:
    engine = Driver()
    await engine.put(*range(1, 101))
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await engine.perform(deliveries.ReadGroup(G, b"c", [deliveries.GroupCursor(S)]))
    held = deliveries.ReadGroup(G, b"c", [deliveries.GroupCursor(S, MIN_ID)], limit=100)

    outcomes = await engine.perform_all([held] * 10)

    assert [each for each in outcomes if isinstance(each, Exception)] == []


@pytest.mark.parametrize("read", OF_LOG, ids=lambda read: type(read).__name__)
async def test_reads_cost_what_an_entry_of_the_transaction_has(read: Request[Any]) -> None:
    engine = Driver()
    await engine.put(999)

    with pytest.raises(TransactionTooLong):
        await engine.perform_all([WIDEST, *[read] * 300])


async def test_groups_that_all_read_one_entry_cost_its_fields() -> None:
    engine = Driver()
    await engine.put(1)
    await engine.perform(WIDEST)
    groups = [b"%d" % number for number in range(300)]
    for group in groups:
        await engine.perform(CreateGroup(S, group, GroupStart(entry_id(1))))
    cursors = [deliveries.GroupCursor(S)]

    with pytest.raises(TransactionTooLong):
        await engine.perform_all(
            [deliveries.ReadGroup(group, b"c", cursors, limit=1) for group in groups]
        )


GROWING: Sequence[Sequence[Request[Any]]] = [
    [CreateGroup(S, b"%d" % at, GroupStart(MIN_ID)) for at in range(300)],
    [RestoreStream(S, image(300))],
    [RestoreStream(b"r", image(300)), RenameStream(b"r", S)],
    [RestoreStream(b"r", image(300)), CopyStream(b"r", S)],
    [
        CreateGroup(S, G, GroupStart(MIN_ID), create_stream=True),
        *[deliveries.ReadGroup(G, b"%d" % at, [deliveries.GroupCursor(S)]) for at in range(300)],
    ],
    [
        Add(S, [Draft(entry_id(at), (b"a", b"b")) for at in range(1, 301)]),
        CreateGroup(S, G, GroupStart(MIN_ID)),
        deliveries.Claim(S, G, b"c", IDS[:300], 0, force=True),
    ],
]
"""Requests that add to a stream within a transaction."""


@pytest.mark.parametrize("first", GROWING, ids=lambda requests: type(requests[-1]).__name__)
async def test_what_a_stream_gets_in_a_transaction_counts(first: Sequence[Request[Any]]) -> None:
    engine = Driver()
    if isinstance(first[0], CreateGroup) and not first[0].create_stream:
        await engine.put(1)
    copies = [CopyStream(S, b"%d" % at) for at in range(100)]

    with pytest.raises(TransactionTooLong):
        await engine.perform_all([*first, *copies])
    await engine.perform_all(first)


async def test_ten_thousand_appends_are_one_transaction_and_answer_in_order() -> None:
    engine = Driver()
    names = [b"a", b"b", b"a", b"c"]
    requests = [plain(names[at % 4], at) for at in range(10_000)]

    outcomes: list[Any] = await engine.perform_all(requests)

    for name in set(names):
        entries = await engine.perform(Range(name, limit=10_000))
        added = [
            (outcome.ids[0], request.drafts[0].fields)
            for request, outcome in zip(requests, outcomes, strict=True)
            if request.stream == name
        ]
        assert [(entry.id, entry.fields) for entry in entries] == added
    assert engine.storage.position == 1


async def test_appends_after_the_last_possible_id_fail_alone() -> None:
    engine = Driver()
    await engine.put(1)
    last_but_six = EntryId(MAX_ID.ms, MAX_ID.seq - 6)
    await engine.perform(SetCounters(S, last_but_six))

    outcomes = await engine.perform_all([plain(S, at) for at in range(1_000)])

    assert [type(outcome) for outcome in outcomes] == [Added] * 6 + [IdsExhausted] * 994
    assert (await engine.perform(DescribeStream(S))).length == 7


async def test_honest_requests_about_a_large_stream_are_within_the_bound() -> None:
    engine = await crowded()
    consuming = deliveries.ReadGroup(G, b"c", [deliveries.GroupCursor(S)], limit=10)
    requests = [
        consuming,
        Trim(S, TrimTo(max_length=1_900, approximate=True)),
        *[deliveries.AckAndDelete(S, G, [each]) for each in IDS[:50]],
        *[plain(S, number) for number in range(500)],
        InspectStream(S),
        deliveries.SumPending(S, G),
        ListConsumers(S, G),
        CopyStream(S, T),
    ]
    assert len(await engine.perform_all(requests)) == len(requests)
