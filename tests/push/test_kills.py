"""Gateways that are killed while receivers fail in every way: nothing is lost, and order is kept.

Each entry is acknowledged by its receiver, or becomes a dead letter once. What is acknowledged may
come again: a gateway that is killed does not know what its receivers have.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conditions import eventually, until
from tests.processes.gateway import Gateway
from tests.push.receivers import WAYS, FailingReceiver

SETTINGS: dict[str, Any] = {"push_allow": "127.0.0.0/8", "fsync": "always"}
KEYS = 8
NUMBERS = 10_000
"""Numbers of the entries of a stream, for those who see several."""
BAD_EVERY = 97
POLICY = {"key_field": "k", "backoff_ms": [10], "max_deliveries": 60, "dead_letter_stream": "dead"}
"""An entry that is always refused is tried that often; one that is refused by chance is not."""


@pytest.mark.parametrize(
    ("count", "kills"), [(1_500, 2), pytest.param(100_000, 10, marks=pytest.mark.long)]
)
async def test_each_entry_is_acknowledged_or_a_dead_letter_in_the_order_of_its_key(
    tmp_path: Path, count: int, kills: int
) -> None:
    receivers = [
        FailingReceiver(way, share, seed)
        for seed, (way, share) in enumerate((way, share) for way in WAYS for share in (0.02, 0.1))
    ]
    for receiver in receivers:
        await receiver.open()
    try:
        await _deliver(tmp_path, receivers, count // len(receivers), kills)
    finally:
        for receiver in receivers:
            await receiver.close()


STREAMS = 12


@pytest.mark.parametrize(
    ("count", "kills", "body"),
    [
        (600, 2, "entry"),
        (600, 2, "batch"),
        pytest.param(40_000, 10, "entry", marks=pytest.mark.long),
    ],
)
async def test_over_a_pattern_it_holds_in_each_stream(
    tmp_path: Path, count: int, kills: int, body: str
) -> None:
    receiver, each_count = FailingReceiver("reset", 0.05, 7), count // STREAMS
    ranges = [range(at * NUMBERS, at * NUMBERS + each_count) for at in range(STREAMS)]
    await receiver.open()
    gateway = await Gateway.start(tmp_path, SETTINGS)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        push = {"url": receiver.url, "concurrency": 16, "timeout_ms": 1_000, "body": body}
        push |= {"create": {"start": "0", "policy": POLICY}}
        answer = await http.put("/v1/groups/g/push?match=s*", json=push)
        assert answer.status_code == 201, answer.text
        for at, numbers in enumerate(ranges):
            await _append(http, f"s{at}", numbers)
    for _ in range(kills):
        await _until_more_is_acknowledged([receiver])
        await gateway.kill()
        gateway = await Gateway.start(tmp_path, SETTINGS)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        for at in range(STREAMS):
            await _until_settled(http, at)
        dead = await _dead(http)
    await gateway.stop()
    await receiver.close()
    _check(receiver, list(chain(*ranges)), list(chain(*dead.values())))


async def _deliver(
    folder: Path, receivers: list[FailingReceiver], each_count: int, kills: int
) -> None:
    gateway = await Gateway.start(folder, SETTINGS)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        for number, receiver in enumerate(receivers):
            await _fill(http, f"s{number}", each_count)
            body = "batch" if number % 4 == 3 else "entry"
            push = {"url": receiver.url, "concurrency": 16, "timeout_ms": 1_000, "body": body}
            push |= {"batch_max": 5}
            answer = await http.put(f"/v1/streams/s{number}/groups/g/push", json=push)
            assert answer.status_code == 201, answer.text
    for _ in range(kills):
        await _until_more_is_acknowledged(receivers)
        await gateway.kill()
        gateway = await Gateway.start(folder, SETTINGS)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        for number in range(len(receivers)):
            await _until_settled(http, number)
        dead = await _dead(http)
    await gateway.stop()
    for number, receiver in enumerate(receivers):
        _check(receiver, range(each_count), dead.get(f"s{number}", []))


async def _fill(http: httpx.AsyncClient, stream: str, count: int) -> None:
    policy = {**POLICY, "dead_letter_stream": "dead"}
    made = {"start": "0", "create_stream": True, "policy": policy}
    answer = await http.put(f"/v1/streams/{stream}/groups/g", json=made)
    assert answer.status_code == 201, answer.text
    await _append(http, stream, range(count))


async def _append(http: httpx.AsyncClient, stream: str, numbers: range) -> None:
    entries = [{"fields": _fields(number)} for number in numbers]
    for begin in range(0, len(entries), 1_000):
        answer = await http.post(
            f"/v1/streams/{stream}/entries/batch", json=entries[begin : begin + 1_000]
        )
        assert answer.status_code == 201, answer.text


def _fields(number: int) -> dict[str, str]:
    fields = {"n": str(number), "k": f"{number // NUMBERS}-{number % KEYS}"}
    return {**fields, "bad": "1"} if number % BAD_EVERY == 5 else fields


async def _until_settled(http: httpx.AsyncClient, number: int) -> None:
    async def is_settled() -> bool:
        group = (await http.get(f"/v1/streams/s{number}/groups/g")).json()
        return (group["pending"], group["lag"]) == (0, 0)

    await eventually(is_settled, bool, 600)


async def _until_more_is_acknowledged(receivers: list[FailingReceiver]) -> None:
    def count() -> int:
        return sum(len(receiver.acknowledged) for receiver in receivers)

    before = count()
    await until(lambda: count() > before + len(receivers), 60)


async def _dead(http: httpx.AsyncClient) -> dict[str, list[int]]:
    """Return the numbers of the dead letters of each stream."""
    dead, after = dict[str, list[int]](), "0"
    while True:
        page = (await http.get(f"/v1/streams/dead/entries?after={after}&limit=1000")).json()
        for entry in page["entries"]:
            fields = entry["fields"]
            dead.setdefault(fields["_stream"], []).append(int(fields["n"]))
            after = entry["id"]
        if not page["entries"]:
            return dead


def _check(receiver: FailingReceiver, sent: Sequence[int], dead: list[int]) -> None:
    bad = [number for number in sent if "bad" in _fields(number)]
    acknowledged = {int(number) for number in receiver.acknowledged}
    assert len(dead) == len(set(dead))
    assert set(bad) <= set(dead)
    assert acknowledged | set(dead) == set(sent)
    for numbers in receiver.by_key.values():
        assert numbers == sorted(numbers)
