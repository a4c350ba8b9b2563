"""Entries that are read as events: one, a range, after a cursor, as a group."""

import asyncio

import pytest

from tests.api.cloud_events.sent import (
    AS_BATCH,
    AS_EVENT,
    BATCH,
    ENTRIES,
    ORDERS,
    STRUCTURED,
    binary,
    event,
    events_in,
    send,
)
from tests.api.conftest import Live, refusal_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = f"{ORDERS}/groups/billing"


async def test_an_entry_is_an_event_if_that_is_asked_for(shared: Live) -> None:
    place = (await send(shared, event(data={"n": 1}))).headers["Location"]
    answer = await shared.http.get(place, headers=AS_EVENT)

    assert answer.headers["Content-Type"] == STRUCTURED
    entry_id = place.rpartition("/")[2]
    assert answer.json() == event(data={"n": 1}, headgateid=entry_id)
    assert "fields" in (await shared.http.get(place)).json()
    missing = await shared.http.get(f"{ENTRIES}/1-1", headers=AS_EVENT)
    assert refusal_of(missing) == (404, "entry_not_found", "")


async def test_a_range_is_a_batch_with_its_cursor_in_headers(shared: Live) -> None:
    [first, second, third] = await shared.append("orders", "a", "b", "c")
    page = await shared.http.get(f"{ENTRIES}?limit=2", headers=AS_BATCH)

    assert [members["data"] for members in page.json()] == [{"v": "a"}, {"v": "b"}]
    assert page.headers["Headgate-Next-After"] == second
    assert page.headers["Headgate-Last-Id"] == third
    [last] = await events_in(shared, start=f"({second}")
    assert (last["headgateid"], last["type"]) == (third, "headgate.entry")
    down = await shared.http.get(f"{ENTRIES}?limit=2&order=desc", headers=AS_BATCH)
    assert [members["headgateid"] for members in down.json()] == [third, second]
    assert down.headers["Headgate-Next-Before"] == second
    assert first not in down.text


async def test_a_read_after_a_cursor_is_a_batch_and_may_wait(shared: Live) -> None:
    await send(shared, event("1"))
    url = f"{ENTRIES}?after=$&wait_ms=30000"
    waiting = asyncio.create_task(shared.http.get(url, headers=AS_BATCH))
    await shared.until_waiting(1)
    appended = (await send(shared, event("2"))).json()["id"]
    answer = await waiting

    assert answer.json() == [event("2", headgateid=appended)]
    assert answer.headers["Headgate-Next-After"] == appended


async def test_a_reader_is_told_of_gaps_and_of_the_end(shared: Live) -> None:
    [first, *_] = await shared.append("orders", "a", "b", "c")
    await shared.http.post(f"{ORDERS}/trim", json={"max_length": 1, "approximate": False})
    await shared.http.post(f"{ORDERS}/close")
    answer = await shared.http.get(f"{ENTRIES}?after={first}", headers=AS_BATCH)

    assert len(answer.json()) == 1
    assert int(answer.headers["Headgate-Closed-At-Ms"]) > 0
    assert answer.headers["Headgate-Gap-To"] > first


async def test_events_have_all_their_fields(shared: Live) -> None:
    await send(shared, event())
    answer = await shared.http.get(f"{ENTRIES}?columns=data", headers=AS_BATCH)

    assert refusal_of(answer) == (422, "invalid_request", "/query/columns")
    other = await shared.http.get(ENTRIES, headers={"Accept": "application/cloudevents+avro"})
    assert refusal_of(other) == (406, "not_acceptable", "/header/Accept")


async def test_a_group_acknowledges_events_by_the_id_of_their_entry(shared: Live) -> None:
    appended = (await send(shared, event("1", data=1))).json()["id"]
    await shared.create_group("orders", "billing")
    url = f"{GROUP}/read?consumer=me"
    first = await shared.http.post(url, json={}, headers=AS_BATCH)

    assert first.headers["Content-Type"] == BATCH
    assert first.headers["Headgate-State"] == "caught_up"
    assert first.headers["Headgate-Pending"] == "1"
    assert first.headers["Headgate-Lag"] == "0"
    assert first.json() == [event("1", data=1, headgateid=appended, headgatedeliveries=1)]
    again = await shared.http.post(url, json={"from": "0"}, headers=AS_BATCH)
    assert again.json()[0]["headgatedeliveries"] == 2
    ids = [members["headgateid"] for members in again.json()]
    assert await shared.outcomes("ack", "orders", "billing", ids, "me") == ["acked"]


async def test_an_entry_that_is_gone_is_an_event_that_may_be_acknowledged(shared: Live) -> None:
    [appended] = await shared.append("orders", "a")
    await shared.create_group("orders", "billing")
    await shared.read_group("orders", "billing", "me")
    await shared.http.delete(f"{ENTRIES}/{appended}")
    url = f"{GROUP}/read?consumer=me"
    [members] = (await shared.http.post(url, json={"from": "0"}, headers=AS_BATCH)).json()

    assert (members["type"], members["headgateid"]) == ("headgate.entry.deleted", appended)
    assert "data" not in members
    assert await shared.outcomes("ack", "orders", "billing", [appended], "me") == ["acked"]


async def test_data_that_are_no_json_are_read_all_the_same(shared: Live) -> None:
    await send(shared, b"{", "application/json", **binary("1"))
    await send(shared, b'"\\ud800"', "application/json", **binary("2"))

    assert [members["data_base64"] for members in await events_in(shared)] == [
        "ew==",
        "Ilx1ZDgwMCI=",
    ]
