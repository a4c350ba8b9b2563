"""Commits: steps that happen together or not at all, fenced by who holds the entries."""

import pytest
from msgspec.structs import replace

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import FieldName, GroupPolicy, StreamConfig
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import (
    ClosedToAppends,
    GroupNotFound,
    IdempotencyMismatch,
    Invalid,
    LastIdMismatch,
    NotATable,
    NotYours,
    RowChanged,
    StreamError,
    StreamNotFound,
)
from headgate.engine.limits import COMMIT_ITEMS_MAX, COMMIT_STEPS_MAX, LOOKUPS_AT_ONCE_MAX
from headgate.engine.replies import CommittedSteps
from headgate.engine.requests.commits import CommitStep, CommitSteps
from headgate.engine.requests.deliveries import Ack, Claim, Extend, Nack, NackMode
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.streams import CloseStream, CreateStream
from headgate.engine.requests.tables import DeleteRow, PutRow, ReadRow, RowCondition
from tests.contract.calls import (
    ANA,
    BEN,
    G,
    S,
    drafts,
    entry_id,
    filled,
    got,
    held,
    ids,
    numbers,
    read,
    ruled,
)

pytestmark = pytest.mark.needs(Ability.PATTERNS)

OUT, STOCK = b"out", b"stock"


def result(*values: bytes, stream: bytes = OUT) -> Add:
    return Add(stream, [Draft(None, (b"n", value)) for value in values])


def ack(*done: int, consumer: bytes = ANA) -> Ack:
    return Ack(S, G, ids(*done), consumer)


async def commit(
    backend: Backend, *steps: CommitStep, key: Idempotent | None = None
) -> CommittedSteps:
    return await backend.perform(CommitSteps(steps, key))


async def values(backend: Backend, stream: bytes = OUT) -> list[bytes]:
    return [entry.fields[1] for entry in await backend.perform(Range(stream))]


async def working(backend: Backend, *entries: int) -> None:
    """Give entries to Ana."""
    await filled(backend, *entries)
    assert await got(backend, read(ANA)) == [*entries]


async def test_an_append_and_an_ack_happen_together(backend: Backend) -> None:
    await working(backend, 1, 2)
    done = await commit(backend, result(b"a", b"b"), ack(1))
    assert [len(each) for each in done.ids] == [2, 0]
    assert await values(backend) == [b"a", b"b"]
    assert await held(backend) == {2: ANA}


async def test_appends_to_one_stream_keep_the_order_of_their_steps(backend: Backend) -> None:
    done = await commit(backend, result(b"a"), result(b"x", stream=S), result(b"b", b"c"))
    assert await values(backend) == [b"a", b"b", b"c"]
    [first], [other], [second, third] = done.ids
    assert first < second < third
    [entry] = await backend.perform(Range(S))
    assert entry.id == other


async def test_of_two_workers_that_did_the_work_only_one_has_a_result(backend: Backend) -> None:
    await working(backend, 1)
    await backend.perform(Claim(S, G, BEN, ids(1), 0))
    with pytest.raises(NotYours) as failed:
        await commit(backend, result(b"of Ana"), ack(1))
    assert failed.value.held == [(entry_id(1), BEN, 2)]
    assert failed.value.location == ("steps", 1)
    await commit(backend, result(b"of Ben"), ack(1, consumer=BEN))
    assert await values(backend) == [b"of Ben"]
    assert await held(backend) == {}


async def test_an_entry_that_was_settled_or_given_back_is_not_ones_own(backend: Backend) -> None:
    await working(backend, 1, 2)
    await backend.perform(Ack(S, G, ids(1), ANA))
    await backend.perform(Nack(S, G, ids(2), NackMode.FAIL))
    with pytest.raises(NotYours) as failed:
        await commit(backend, ack(1, 2))
    assert failed.value.held == [(entry_id(1), None, None), (entry_id(2), None, 1)]


async def test_an_older_delivery_to_the_same_consumer_does_not_hold(backend: Backend) -> None:
    await working(backend, 1)
    await backend.perform(Claim(S, G, ANA, ids(1), 0))
    with pytest.raises(NotYours):
        await commit(backend, replace(ack(1), counts={entry_id(1): 1}))
    await commit(backend, replace(ack(1), counts={entry_id(1): 2}))
    assert await held(backend) == {}


REFUSED: list[tuple[CommitStep, type[StreamError]]] = [
    (Ack(S, b"nobody", ids(1), ANA), GroupNotFound),
    (Ack(b"missing", G, ids(1), ANA), GroupNotFound),
    (ack(7), NotYours),
    (Extend(S, G, ids(7), ANA), NotYours),
    (Nack(S, G, ids(7), NackMode.FAIL, consumer=ANA), NotYours),
    (ack(1), Invalid),  # once more
    (replace(result(b"b"), create_stream=False, stream=b"missing"), StreamNotFound),
    (replace(result(b"b"), expected_last_id=entry_id(9)), LastIdMismatch),
    (result(b"b", stream=b"closed"), ClosedToAppends),
    (Add(OUT, [Draft(None, ())]), Invalid),
    (Add(OUT, [Draft(entry_id(5), (b"n", b"b"))]), Invalid),
    (PutRow(S, b"42", (b"n", b"b")), NotATable),
    (PutRow(STOCK, b"42", (b"sku", b"43")), Invalid),
    (PutRow(STOCK, b"42", (b"n", b"b"), RowCondition(entry_id(9))), RowChanged),
    (DeleteRow(STOCK, b"42", RowCondition(entry_id(9))), RowChanged),
]


@pytest.mark.parametrize(("step", "error"), REFUSED)
async def test_a_step_that_fails_fails_all_and_is_named(
    backend: Backend, step: CommitStep, error: type[StreamError]
) -> None:
    await working(backend, 1)
    await backend.perform(CreateStream(STOCK, StreamConfig(key_field=FieldName(b"sku"))))
    await backend.perform(CloseStream(b"closed", drafts(1)))
    with pytest.raises(error) as failed:
        await commit(backend, result(b"a", stream=b"new"), ack(1), step)
    assert failed.value.location[:2] == ("steps", 2)
    assert await held(backend) == {1: ANA}
    for stream in (b"new", OUT):
        with pytest.raises(StreamNotFound):
            await numbers(backend, stream)


@pytest.mark.parametrize(
    "steps",
    [
        [],
        [result(b"a")] * (COMMIT_STEPS_MAX + 1),
        [result(*[b"a"] * COMMIT_ITEMS_MAX), result(b"a")],
        [Nack(S, G, ids(*range(1, LOOKUPS_AT_ONCE_MAX + 2)), NackMode.FAIL, consumer=ANA)],
    ],
)
async def test_a_commit_has_bounds(backend: Backend, steps: list[CommitStep]) -> None:
    await working(backend, 1)
    with pytest.raises(Invalid) as failed:
        await commit(backend, *steps)
    assert failed.value.location == ("steps",)


async def test_a_repeat_under_a_key_gets_what_it_made(backend: Backend) -> None:
    await working(backend, 1)
    key = Idempotent(b"w", b"order-1", b"digest")
    steps = result(b"a", b"b"), ack(1), result(b"x", stream=S), result(b"c")
    done = await commit(backend, *steps, key=key)
    again = await commit(backend, *steps, key=key)
    assert again == done._replace(is_repeat=True)
    assert await values(backend) == [b"a", b"b", b"c"]
    with pytest.raises(IdempotencyMismatch):
        await commit(backend, *steps, key=key._replace(digest=b"another"))


async def test_a_commit_that_appends_nothing_is_repeatable_too(backend: Backend) -> None:
    await working(backend, 1, 2)
    key = Idempotent(b"w", b"order-1", b"digest")
    await commit(backend, ack(1), key=key)
    assert (await commit(backend, ack(1), key=key)).is_repeat
    assert await held(backend) == {2: ANA}


async def test_rows_change_with_the_other_steps_and_are_as_expected_before_it(
    backend: Backend,
) -> None:
    await working(backend, 1)
    await backend.perform(CreateStream(STOCK, StreamConfig(key_field=FieldName(b"sku"))))
    [before] = (await backend.perform(PutRow(STOCK, b"42", (b"n", b"3")))).ids
    await backend.perform(PutRow(STOCK, b"43", (b"n", b"5")))
    done = await commit(
        backend,
        PutRow(STOCK, b"42", (b"n", b"2"), RowCondition(before)),
        DeleteRow(STOCK, b"43"),
        PutRow(STOCK, b"44", (b"n", b"1"), RowCondition()),
        ack(1),
    )
    found = [(await backend.perform(ReadRow(STOCK, key))).row for key in (b"42", b"43", b"44")]
    assert [row and row.id for row in found] == [done.ids[0][0], None, done.ids[2][0]]
    assert await held(backend) == {}


async def test_what_failed_too_often_becomes_a_dead_letter_in_the_commit(backend: Backend) -> None:
    policy = GroupPolicy(max_deliveries=1, dead_letter_stream=b"dead")
    await ruled(backend, policy, *[Draft(entry_id(1), (b"n", b"1"))])
    assert await got(backend, read(ANA)) == [1]
    await commit(
        backend, Nack(S, G, ids(1), NackMode.FAIL, consumer=ANA), result(b"a", stream=b"dead")
    )
    assert await values(backend, b"dead") == [b"a", b"1"]
    assert await held(backend) == {}


async def test_a_dead_letter_of_a_commit_says_how_often_it_was_delivered(backend: Backend) -> None:
    policy = GroupPolicy(max_deliveries=9, dead_letter_stream=b"dead")
    await ruled(backend, policy, *[Draft(entry_id(1), (b"n", b"1"))])
    assert await got(backend, read(ANA)) == [1]
    await commit(backend, Nack(S, G, ids(1), NackMode.FATAL, consumer=ANA))
    [letter] = await backend.perform(Range(b"dead"))
    assert letter.fields[letter.fields.index(b"_deliveries") + 1] == b"1"


async def test_an_entry_is_given_back_or_kept_with_the_other_steps(backend: Backend) -> None:
    await working(backend, 1, 2, 3)
    await commit(
        backend,
        Nack(S, G, ids(1), NackMode.SILENT, consumer=ANA),
        Extend(S, G, ids(2), ANA),
        ack(3),
    )
    assert await held(backend) == {1: None, 2: ANA}


async def test_a_reader_that_waits_gets_what_a_commit_appends(backend: Backend) -> None:
    await working(backend, 1)
    done = await commit(backend, result(b"2", stream=S), ack(1))
    [[made]] = [each for each in done.ids if each]
    assert isinstance(made, EntryId)
    assert await got(backend, read(BEN)) == [made.ms]
