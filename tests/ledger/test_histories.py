"""A bank, and entries in stages, in virtual time while everything around them fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.engine.config import FieldName, GroupPolicy, StreamConfig
from headgate.engine.decisions import commits
from headgate.engine.entry import MIN_ID
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.streams import CreateStream
from headgate.engine.requests.tables import ReadTable
from tests.ledger import bank, stages
from tests.ledger.bank import ACCOUNTS, DONE, KEY_FIELD, NAMES, TELLERS, TRANSFERS, Event, Teller
from tests.ledger.checker import Books, violations
from tests.ledger.client import append
from tests.ledger.stages import STAGES, STREAMS, Operator, violations_of_order
from tests.ledger.workplace import Work, Workplace
from tests.virtual_time import in_virtual_time

TRANSFER_COUNT, ORDERED_TOGETHER_MAX = 150, 20
WORKERS = ["w0", "w1", "w2", "w3", "w3"]
"""Two go by one name: a worker that was taken for dead, and its successor."""

ENTRY_COUNT, SENT_TOGETHER, KEY_COUNT = 300, 50, 15


async def bank_history(seed: int) -> list[str]:
    """Return the violations of a history of the bank."""
    place, log, ordered = Workplace(seed), list[Event](), dict[str, dict[str, str]]()

    def teller(name: str) -> Work:
        client, pause = place.client, place.pause_or_die
        return lambda life: Teller(client, name, life, log.append, pause).run()

    async with place.serving():
        await _open_bank(place)
        async with place.working(map(teller, WORKERS)):
            while len(ordered) < TRANSFER_COUNT:
                ordered |= await _order(place, len(ordered))
            await place.settled(TRANSFERS, TELLERS)
        return violations(log, ordered, await _books(place))


async def _open_bank(place: Workplace) -> None:
    await place.perform(
        CreateStream(ACCOUNTS.encode(), StreamConfig(key_field=FieldName(KEY_FIELD.encode())))
    )
    await bank.open_accounts(place.client, place.pause)
    await _make_group(place, TRANSFERS, TELLERS, GroupPolicy())


async def _make_group(place: Workplace, stream: str, group: str, policy: GroupPolicy) -> None:
    names = stream.encode(), group.encode()
    await place.perform(CreateGroup(*names, GroupStart(MIN_ID), create_stream=True, policy=policy))


async def _order(place: Workplace, first: int) -> dict[str, dict[str, str]]:
    numbers = range(first, first + place.chance.randint(1, ORDERED_TOGETHER_MAX))
    transfers = [bank.ordered(place.chance, number) for number in numbers]
    return await bank.order(place.client, place.pause, transfers, f"transfers {first}")


async def _books(place: Workplace) -> Books:
    left = await place.settled(TRANSFERS, TELLERS)
    page = await place.perform(ReadTable(ACCOUNTS.encode(), limit=len(NAMES)))
    return Books(
        accounts=await place.entries(ACCOUNTS),
        transfers=await place.entries(TRANSFERS),
        done=await place.entries(DONE),
        rows={row.key.decode(): str(row.id) for row in page.rows},
        left=None if left.lag is None else left.lag + left.pending_count,
    )


@in_virtual_time
async def check_bank(seed: int) -> None:
    assert await bank_history(seed) == [], f"seed {seed}"


@pytest.mark.parametrize("seed", range(12))
def test_each_transfer_is_done_once_and_everybody_is_told_the_truth(seed: int) -> None:
    check_bank(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 1_100, 100))
def test_each_transfer_is_done_once_in_many_histories(first: int) -> None:
    for seed in range(first, first + 100):
        check_bank(seed)


WITHOUT: list[tuple[object, str, Callable[..., object], str]] = [
    (commits._Commit, "_check_fence", lambda self, step: None, "4"),
    (commits, "check_row", lambda stream, table, step: None, "3"),
    (commits, "_remembering", lambda steps: [], "8"),
]
"""A part of commits, what does nothing in its place, and the rule that is violated then."""


@pytest.mark.parametrize(("holder", "part", "nothing", "rule"), WITHOUT)
@in_virtual_time
async def test_the_checker_finds_commits_that_lack_a_part(
    monkeypatch: pytest.MonkeyPatch,
    holder: object,
    part: str,
    nothing: Callable[..., object],
    rule: str,
) -> None:
    monkeypatch.setattr(holder, part, nothing)
    assert rule in {wrong[:1] for wrong in await bank_history(0)}


@pytest.mark.parametrize("seed", range(4))
@in_virtual_time
async def test_entries_go_through_stages_once_and_in_order(seed: int) -> None:
    place, sent = Workplace(seed), stages.entries(0, ENTRY_COUNT, KEY_COUNT)

    def operator(number: int) -> Work:
        client, pause, stage = place.client, place.pause_or_die, STAGES[number % len(STAGES)]
        return lambda life: Operator(client, f"o{number}", life, stage, pause).run()

    async with place.serving():
        policy = GroupPolicy(key_field=FieldName(stages.KEY_FIELD.encode()))
        for stream in STREAMS[:-1]:
            await _make_group(place, stream, stages.GROUP, policy)
        async with place.working(map(operator, range(2 * len(STAGES)))):
            for start in range(0, ENTRY_COUNT, SENT_TOGETHER):
                part = sent[start : start + SENT_TOGETHER]
                await append(place.client, place.pause, STREAMS[0], part, f"sent {start}")
            for stream in STREAMS[:-1]:
                await place.settled(stream, stages.GROUP)
        results = await place.entries(STREAMS[-1])
    assert [*violations_of_order(sent, [entry.fields for entry in results])] == []
