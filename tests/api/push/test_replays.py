"""Entries are sent again, and their group does not notice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.api.push.conftest import GROUP, OK, PUSH, described, policy, put, until_settled
from tests.conditions import eventually
from tests.receiver import Notice, Receiver
from tests.servers.chosen import URL

FAILED = "500 No", b""
REPLAY = f"POST {PUSH}/replay"


async def delivered(live: Live, receiver: Receiver, count: int, **push: Any) -> list[str]:
    """Let some entries be delivered, and return their ids."""
    await put(live, receiver, **push)
    ids = await live.append("orders", *map(str, range(count)))
    await until_settled(live, count)
    while not receiver.notices.empty():
        receiver.notices.get_nowait()
    return ids


async def until_ended(live: Live) -> dict[str, Any]:
    push = await eventually(
        lambda: described(live), lambda push: push["replay"]["state"] != "running"
    )
    replay: dict[str, Any] = push["replay"]
    return replay


def notices(receiver: Receiver) -> list[Notice]:
    return [receiver.notices.get_nowait() for _ in range(receiver.notices.qsize())]


async def test_a_range_is_counted_and_then_sent_again(live: Live, receiver: Receiver) -> None:
    ids = await delivered(live, receiver, 30)
    wanted = {"start": ids[10], "end": f"({ids[20]}"}
    counted = await live.ask(REPLAY, {**wanted, "dry_run": True})
    assert (counted["state"], counted["entries"], counted["at_least"]) == ("counted", 10, False)
    assert receiver.notices.empty()
    assert (await described(live))["replay"] is None
    group = await live.ask(f"GET {GROUP}")
    begun = await live.ask(REPLAY, wanted)
    assert (begun["state"], begun["entries"]) == ("running", 10)
    ended = await until_ended(live)
    assert (ended["state"], ended["sent"], ended["failed"]) == ("done", 10, 0)
    sent = notices(receiver)
    assert sorted(notice.json["id"] for notice in sent) == sorted(ids[10:20])
    assert {notice.header("headgate-replay") for notice in sent} == {begun["id"]}
    after = await live.ask(f"GET {GROUP}")
    assert (after["last_id"], after["pending"]) == (group["last_id"], 0)


async def test_it_keeps_the_ids_of_requests(live: Live, receiver: Receiver) -> None:
    await put(live, receiver)
    await live.append("orders", "1")
    first = await receiver.next()
    await until_settled(live, 1)
    await live.ask(REPLAY, {"start": "-"})
    again = await receiver.next()
    assert again.header("webhook-id") == first.header("webhook-id")
    assert "headgate-replay" not in first.head


async def test_only_what_filters_let_through_is_sent(live: Live, receiver: Receiver) -> None:
    await policy(live, filters=[{"prefix": {"v": "1"}}])
    await put(live, receiver)
    await live.append("orders", *map(str, range(20)))  # 11 of them begin with 1
    await eventually(lambda: described(live), lambda push: push["delivered_count"] == 11)
    counted = await live.ask(REPLAY, {"start": "-", "dry_run": True})
    assert counted["entries"] == 11
    notices(receiver)
    await live.ask(REPLAY, {"start": "-", "filter": {"suffix": {"v": "5"}}})
    assert (await until_ended(live))["sent"] == 1
    [notice] = notices(receiver)
    assert notice.json["fields"] == {"v": "15"}


async def test_what_the_group_has_not_read_is_not_sent_again(
    live: Live, receiver: Receiver
) -> None:
    await delivered(live, receiver, 2)
    await live.http.post(f"{PUSH}/pause")
    await live.append("orders", "3")
    assert (await live.ask(REPLAY, {"start": "0", "dry_run": True}))["entries"] == 2


async def test_a_failed_entry_is_retried_and_then_counted(live: Live, receiver: Receiver) -> None:
    await policy(live, backoff_ms=[1], max_deliveries=3, dead_letter_stream="dead")
    await delivered(live, receiver, 3, body="batch")
    tries = Counter[str]()

    def respond(notice: Notice) -> tuple[str, bytes]:
        values = [entry["fields"]["v"] for entry in notice.json["entries"]]
        tries.update(values)
        return FAILED if "1" in values else OK

    receiver.respond = respond
    await live.ask(REPLAY, {"start": "-"})
    ended = await until_ended(live)
    assert (ended["sent"], ended["failed"]) == (2, 1)
    assert tries["1"] == 3
    group = await live.ask(f"GET {GROUP}")
    assert group["pending"] == 0
    assert (await live.http.get("/v1/streams/dead")).status_code == 404


async def test_one_runs_at_a_time_until_it_is_cancelled(live: Live, receiver: Receiver) -> None:
    await delivered(live, receiver, 3)
    receiver.may_answer.clear()
    await live.ask(REPLAY, {"start": "-"})
    await receiver.next()
    refused = await live.http.post(f"{PUSH}/replay", json={"start": "-"})
    assert (refused.status_code, refused.json()["code"]) == (409, "limit_reached")
    assert (await live.ask(f"DELETE {PUSH}/replay"))["state"] == "cancelled"
    assert (await live.http.delete(f"{PUSH}/replay")).status_code == 404
    receiver.may_answer.set()
    await live.append("orders", "new")
    await until_settled(live, 4)
    assert (await described(live))["replay"]["state"] == "cancelled"
    await live.ask(REPLAY, {"start": "-"})
    assert (await until_ended(live))["sent"] == 4


@pytest.mark.skipif(URL is not None, reason="the second gateway needs what the first one wrote")
async def test_the_next_gateway_continues(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, push_allow=["127.0.0.0/8"])
    receiver = Receiver(OK)
    await receiver.open()
    async with running(settings) as live:
        await live.create_group("orders", "billing")
        await delivered(live, receiver, 250)
        receiver.may_answer.clear()
        await live.ask(REPLAY, {"start": "-"})
        receiver.may_answer.set()
        await eventually(lambda: described(live), lambda push: push["replay"]["sent"] >= 100)
        receiver.may_answer.clear()
    receiver.may_answer.set()
    begun = {notice.json["id"] for notice in notices(receiver)}
    async with running(settings) as live:
        assert (await until_ended(live))["sent"] == 250
    again = {notice.json["id"] for notice in notices(receiver)}
    assert len(begun | again) == 250
    assert len(again) <= 150  # what had been noted is not sent again
    await receiver.close()


async def test_bad_bounds_and_filters_are_refused(live: Live, receiver: Receiver) -> None:
    await put(live, receiver)
    for wanted, pointer in (
        ({"start": "soon"}, "/body/start"),
        ({"start": "-", "end": "x"}, "/body/end"),
        ({"start": "-", "filter": {"matches": {}}}, "/body/filter"),
        ({}, "/body/start"),
    ):
        answer = await live.http.post(f"{PUSH}/replay", json=wanted)
        assert answer.json()["errors"][0]["pointer"].startswith(pointer), answer.text
